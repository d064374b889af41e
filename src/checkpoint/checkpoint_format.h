// The bytes of a checkpoint file and the bounds of its contents. Layout: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

// Bytes: Carillon's 512-byte header, then an HDF5 image with the training state.

inline constexpr std::size_t checkpoint_header_bytes = 512;

/// Returns the bytes of the whole file. Frees each array as soon as it is in the file. Pass a large state with
/// std::move. Errors: see build_hdf5_image.
std::vector<std::byte> encode_checkpoint(CheckpointState state);

/// Checks length and CRC32C of `file`, and returns the HDF5 image in it. Every error line starts with `subject`
/// ("checkpoint <path>"). Errors: data, RefusedCheckpoint (the header has another version).
std::span<const std::byte> verified_image(std::span<const std::byte> file, const std::string& subject);

/// Returns `front_bytes` zero bytes, then the HDF5 image of `state`. Equal states result in equal bytes. Frees each
/// array as soon as it is in the image; pass a large state with std::move. Errors: failed (the state exceeds
/// CheckpointBounds, so that no reader would accept it).
std::vector<std::byte> build_hdf5_image(CheckpointState state, std::size_t front_bytes);

/// Parses an image. Sorts the arrays by name. Accepts only the layout of docs/developer-guide/file-formats.md: one hard
/// link to each group and array, all data within the image, and the storage that the writer uses. Error lines start
/// with `subject`. Errors: data, RefusedCheckpoint (the file has another format version).
CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject);

// Limits of the contents. Writers and readers check the same limits, and a training checks them before its first step.
// Therefore every checkpoint that is written can be read.

inline constexpr int max_array_rank = 8;
inline constexpr int max_name_depth = 16;                    ///< largest number of '/' in a name
inline constexpr std::size_t max_name_bytes = 1024;          ///< largest length of the name of an array or optimizer
                                                             ///< slot
inline constexpr std::uint64_t max_chunk_elements = 262144;  ///< 1 MiB, the size of HDF5's chunk cache
inline constexpr std::size_t max_text_bytes = std::size_t{16} << 20;
inline constexpr int max_options_depth = 16;                            ///< limit of the nesting depth, because JSON
                                                                        ///< parsers recurse
inline constexpr std::int64_t max_global_step = std::int64_t{1} << 53;  ///< also the maximum of --max-steps
inline constexpr std::uint64_t max_stream_position = std::uint64_t{1} << 63;

/// An upper bound for the number of bytes that the file needs for the name and the HDF5 metadata of an array.
inline constexpr std::size_t max_array_overhead_bytes = std::size_t{16} << 10;

/// Checks the parts of a checkpoint. All errors have `code` and start with `subject`.
class CheckpointBounds {
 public:
  CheckpointBounds(ExitCode code, std::string subject) : code_(code), subject_(std::move(subject)) {}

  /// Checks the text of an attribute: model, options or network.
  void check_text(std::string_view attribute, std::string_view text) const;
  /// Checks length and nesting of the options JSON.
  void check_options(std::string_view json) const;
  void check_position(std::int64_t global_step, std::uint64_t stream_position) const;
  void check_array(std::string_view name, std::span<const std::int64_t> shape) const;
  void check_slot(std::string_view name) const;

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(code_, "{}: {}", subject_, fmt::format(format, std::forward<Args>(args)...));
  }

  ExitCode code_;
  std::string subject_;
};

}  // namespace carillon
