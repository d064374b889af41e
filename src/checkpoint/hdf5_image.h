// HDF5 image: a training state as the bytes of an HDF5 file, built and parsed in memory. Layout: docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// A sound checkpoint that this program is too old for: no reason to fall back to an older one.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

/// Bounds of what is written, checked again when it is read.
inline constexpr int max_array_rank = 8;
inline constexpr int max_name_depth = 16;                    ///< '/' in a name
inline constexpr std::uint64_t max_chunk_elements = 262144;  ///< 1 MiB, what HDF5's chunk cache holds
inline constexpr std::size_t max_text_bytes = std::size_t{16} << 20;
inline constexpr int max_options_depth = 16;  ///< of arrays and objects in the options: what handles JSON recurses

/// The image of `state`, after `front_bytes` zero bytes. Equal buffers give equal bytes.
std::vector<std::byte> build_hdf5_image(const CheckpointState& state, std::size_t front_bytes);

/// Arrays come in the order of their names. Only what docs/formats.md describes is read: hard links to groups and
/// arrays of the image itself, each of them once, whose data lies in it as it is written. `subject` starts error lines.
/// Errors: data, NewerFormat.
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

}  // namespace carillon
