// The bytes of a checkpoint file: Carillon's 512-byte header, then an HDF5 image with the training state.
// Layout: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

inline constexpr std::size_t checkpoint_header_bytes = 512;

/// The whole file. Frees each array when it is in the file, so move a large state. Errors: as build_hdf5_image.
std::vector<std::byte> encode_checkpoint(CheckpointState state);

/// Checks length and CRC32C of `file` and returns the HDF5 image in it. `subject` ("checkpoint <path>") starts every
/// error line. Errors: data, RefusedCheckpoint (another version of the header).
std::span<const std::byte> verified_image(std::span<const std::byte> file, const std::string& subject);

/// The image of `state`, after `front_bytes` zero bytes. Equal states give equal bytes. Frees each array when it is in
/// the image, so move a large state. Errors: failed (the state exceeds CheckpointBounds, so no reader would accept it).
std::vector<std::byte> build_hdf5_image(CheckpointState state, std::size_t front_bytes);

/// Parses an image. Arrays are sorted by name. Accepts only the layout of docs/developer-guide/file-formats.md: hard
/// links to groups and arrays within the image, each linked once, with the storage that the writer uses. `subject`
/// starts error lines. Errors: data, RefusedCheckpoint (another format version).
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

}  // namespace carillon
