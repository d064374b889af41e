// SourceFile: the bytes of a published data set's file, plain or compressed, taken one after the other.
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
  /// GZIP, xz, bzip2 and zstd are undone. Errors: those of open_plain_file; data (damage, or a zip file); io.
  explicit SourceFile(std::string path);
  SourceFile(const SourceFile&) = delete;  // its decompressor holds its address
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }

  /// Writes to `out` as many of the next bytes as there are and returns their number: fewer than asked for only at the
  /// end. What a compression has as checksums is verified by then. Errors: data (damaged, cut), io, naming the file.
  std::size_t read(std::span<std::byte> out);

  /// The next `bytes` bytes, or those that there are. Nothing is allocated for bytes that a file only promises.
  /// Errors: as `read`.
  std::vector<std::uint8_t> take(std::size_t bytes);

 private:
  std::size_t read_stored(std::span<std::byte> out);

  std::string path_;
  Descriptor file_;  // read, not mapped: one that is cut meanwhile just ends there
  std::array<std::byte, 8> first_{};
  std::span<const std::byte> unread_;  // of its first bytes
  std::optional<GzipStream> gzip_;
  std::optional<Decompressor> other_;
};

}  // namespace carillon
