// SourceFile: the bytes of a published data set's file, plain or GZIP, taken one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/gzip_stream.h"
#include "src/data/mapped_file.h"

namespace carillon {

class SourceFile {
 public:
  /// Errors: those of MappedFile; data for a file compressed otherwise (xz, bzip2, zstd, zip).
  explicit SourceFile(std::string path);

  const std::string& path() const { return path_; }

  /// As many of the next `bytes` bytes as there are. Nothing is allocated for bytes that a file only promises.
  /// Errors: data (damaged GZIP), naming the file.
  std::vector<std::uint8_t> take(std::size_t bytes);

  /// Passes over the next `bytes` bytes and returns how many there were.
  std::uint64_t skip(std::uint64_t bytes);

 private:
  std::size_t read(std::span<std::byte> out);

  std::string path_;
  MappedFile file_;
  bool gzip_;
  std::span<const std::byte> rest_;
  GzipStream stream_;
};

}  // namespace carillon
