// HDF5 image: builds and parses the bytes of an HDF5 file with a training state, in memory.
// Layout: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// The image of `state`, after `front_bytes` zero bytes. Equal states give equal bytes. Frees each array when it is in
/// the image, so move a large state. Errors: failed (the state exceeds CheckpointBounds, so no reader would accept it).
std::vector<std::byte> build_hdf5_image(CheckpointState state, std::size_t front_bytes);

/// Parses an image. Arrays are sorted by name. Accepts only the layout of docs/developer-guide/file-formats.md: hard
/// links to groups and arrays within the image, each linked once, with the storage that the writer uses. `subject`
/// starts error lines.
/// Errors: data, RefusedCheckpoint (a newer format).
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

}  // namespace carillon
