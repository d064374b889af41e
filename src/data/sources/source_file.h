// SourceFile: the bytes of a published data set's file, plain or compressed, taken one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/data/gzip_stream.h"
#include "src/data/mapped_file.h"
#include "src/data/sources/decompressor.h"

namespace carillon {

class SourceFile {
 public:
  /// GZIP, xz, bzip2 and zstd are undone. Errors: those of MappedFile; data (damage, or a zip file).
  explicit SourceFile(std::string path);

  const std::string& path() const { return path_; }

  /// Writes to `out` as many of the next bytes as there are and returns their number: fewer than asked for only at the
  /// end. What a compression has as checksums is verified by then. Errors: data (damaged, cut), naming the file.
  std::size_t read(std::span<std::byte> out);

  /// The next `bytes` bytes, or those that there are. Nothing is allocated for bytes that a file only promises.
  /// Errors: as `read`.
  std::vector<std::uint8_t> take(std::size_t bytes);

 private:
  std::string path_;
  MappedFile file_;
  std::span<const std::byte> rest_;  // of a plain file
  std::optional<GzipStream> gzip_;
  std::optional<Decompressor> other_;
};

}  // namespace carillon
