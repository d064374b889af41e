// HDF5 image: a training state as the bytes of an HDF5 file, built and parsed in memory. Layout: docs/formats.md.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "carillon/checkpoint/checkpoint.h"
#include "carillon/core/error.h"

namespace carillon {

/// A sound checkpoint that this program is too old for: no reason to fall back to an older one.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

/// Bounds of what is written, checked again when it is read.
inline constexpr int max_array_rank = 8;
inline constexpr int max_name_depth = 16;  ///< '/' in a name

/// The image of `state`, after `front_bytes` zero bytes. Equal states give equal bytes.
std::vector<std::byte> build_hdf5_image(const CheckpointState& state, std::size_t front_bytes);

/// Arrays come in the order of their names. `subject` starts error lines. Errors: data, NewerFormat.
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

}  // namespace carillon
