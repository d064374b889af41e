// Checkpoint bytes: Carillon's 512-byte header and the HDF5 image behind it. Format: docs/formats.md.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

inline constexpr std::size_t checkpoint_header_bytes = 512;

std::vector<std::byte> encode_checkpoint(const CheckpointState& state);

/// Length of the image that the header announces. Errors: data, when `header` (the file's first 512 bytes, or all of a
/// shorter file) is not a sound one. `subject` ("checkpoint <path>") starts every error line.
std::uint64_t announced_image_bytes(std::span<const std::byte> header, const std::string& subject);

/// The HDF5 image in `file`, after length and CRC32C are checked. Errors: data.
std::span<const std::byte> verified_image(std::span<const std::byte> file, const std::string& subject);

}  // namespace carillon
