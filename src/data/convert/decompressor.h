// Decompressor: decompresses xz, bzip2 or zstd data with libarchive.
//
// GzipStream decompresses GZIP data, because libarchive does not verify GZIP's checksum.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "src/data/convert/libarchive.h"

namespace carillon {

/// Compression format of `data` according to its first bytes: "xz", "bzip2" or "zstd", otherwise empty.
std::string_view compression_name(std::span<const std::byte> data);

class Decompressor {
 public:
  /// `name`: the compression_name of the data. Errors: as `read`.
  Decompressor(std::string_view name, ByteInput compressed);

  /// Writes decompressed bytes to `out` and returns their number: less than requested only at the end, 0 after it.
  /// Errors: data (truncated or damaged), without the file's name; errors of the input.
  std::size_t read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail_damaged() const;

  std::string_view name_;
  ArchiveInput input_;
  ArchiveHandle archive_;
};

}  // namespace carillon
