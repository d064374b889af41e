// Decompressor: the bytes of xz, bzip2 or zstd data, undone by libarchive.
//
// GZIP is GzipStream's: libarchive does not verify its checksum.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "src/data/convert/libarchive.h"

namespace carillon {

/// The name of the compression that `data` starts like: "xz", "bzip2", "zstd", or empty for any other bytes.
std::string_view compression_name(std::span<const std::byte> data);

class Decompressor {
 public:
  /// `name`: the compression_name of the data. Errors: as `read`.
  Decompressor(std::string_view name, ByteInput compressed);

  /// Writes to `out` and returns the bytes written: fewer than asked for only at the end, 0 there.
  /// Errors: data (cut or damaged), without the file's name; those of its input.
  std::size_t read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail_damaged() const;

  std::string_view name_;
  ArchiveInput input_;
  ArchiveHandle archive_;
};

}  // namespace carillon
