// SourceFile: sequential reader of a dataset's published file, plain or compressed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/file.h"
#include "src/data/convert/decompressor.h"
#include "src/data/records/gzip_stream.h"

namespace carillon {

class SourceFile {
 public:
  /// Opens the file; GZIP, xz, bzip2 and zstd are decompressed. Errors: as open_plain_file; data (damage, or a zip
  /// file); io.
  explicit SourceFile(std::string path);
  SourceFile(const SourceFile&) = delete;  // the decompressor holds its address
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }

  /// Writes the next bytes to `out` and returns their number: less than requested only at the end. The checksums of the
  /// compression are verified by then. Errors: data (damaged, truncated), io, naming the file.
  std::size_t read(std::span<std::byte> out);

  /// Returns the next `bytes` bytes, or fewer at the end. Memory grows only as bytes arrive. Errors: as `read`.
  std::vector<std::uint8_t> take(std::size_t bytes);

 private:
  std::size_t read_stored(std::span<std::byte> out);

  std::string path_;
  Descriptor file_;  // read, not mapped: a truncated file only ends early
  std::array<std::byte, 8> first_{};
  std::span<const std::byte> unread_;  // unread part of first_
  std::optional<GzipStream> gzip_;
  std::optional<Decompressor> other_;
};

}  // namespace carillon
