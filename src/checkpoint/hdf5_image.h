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

/// A valid checkpoint of a newer format. Loading must not fall back to an older checkpoint.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

/// Bounds that writing and reading check.
inline constexpr int max_array_rank = 8;
inline constexpr int max_name_depth = 16;                    ///< number of '/' in a name
inline constexpr std::uint64_t max_chunk_elements = 262144;  ///< 1 MiB, the size of HDF5's chunk cache
inline constexpr std::size_t max_text_bytes = std::size_t{16} << 20;
inline constexpr int max_options_depth = 16;  ///< nesting of the options JSON, because JSON parsers recurse

/// The image of `state`, after `front_bytes` zero bytes. Equal states give equal bytes. Frees each array when it is in
/// the image, so move a large state.
std::vector<std::byte> build_hdf5_image(CheckpointState state, std::size_t front_bytes);

/// Parses an image. Arrays are sorted by name. Accepts only the layout of docs/developer-guide/file-formats.md: hard
/// links to groups and arrays within the image, each linked once, with the storage that the writer uses. `subject`
/// starts error lines.
/// Errors: data, NewerFormat.
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

}  // namespace carillon
