// The bytes of a checkpoint file: Carillon's 512-byte header, then the HDF5 image.
// Format: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

inline constexpr std::size_t checkpoint_header_bytes = 512;

/// Frees each array when it is in the file, so move a large state.
std::vector<std::byte> encode_checkpoint(CheckpointState state);

/// The image length that the header states. `header`: the first 512 bytes of the file, or all of a shorter file.
/// `subject` ("checkpoint <path>") starts every error line. Errors: data (not a valid header).
std::uint64_t announced_image_bytes(std::span<const std::byte> header, const std::string& subject);

/// The HDF5 image in `file`, after checking length and CRC32C. Errors: data.
std::span<const std::byte> verified_image(std::span<const std::byte> file, const std::string& subject);

}  // namespace carillon
