// SourceFile: sequential reader of a dataset's published file, plain or compressed.
#pragma once

#include <archive.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/file.h"
#include "carillon/core/handle.h"
#include "src/data/records/byte_source.h"

namespace carillon {

// Common parts of libarchive readers: handle, error text and input.

using ArchiveHandle = Handle<archive*, archive_read_free>;

/// libarchive's text of its last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "unknown cause";
}

/// Passes the bytes of `input` to libarchive. Exceptions of `input` are stored until libarchive has returned.
class ArchiveInput {
 public:
  explicit ArchiveInput(ByteInput input);
  ArchiveInput(const ArchiveInput&) = delete;  // libarchive holds its address
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  /// Calls archive_read_open; returns whether it succeeds.
  bool open(archive* reader);
  /// Rethrows the exception of `input`, if there was one.
  void rethrow() const;

 private:
  static la_ssize_t read_more(archive*, void* self, const void** bytes);

  ByteInput input_;
  std::vector<std::byte> buffer_;
  std::exception_ptr error_;
};

// Decompressor: decompresses xz, bzip2 or zstd data with libarchive.
//
// GzipStream decompresses GZIP data, because libarchive does not verify GZIP's checksum.

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

class SourceFile {
 public:
  /// Opens the file; GZIP, xz, bzip2 and zstd are decompressed. Errors: as open_plain_file; data (damage, or a zip
  /// file); io.
  explicit SourceFile(std::string path);
  SourceFile(const SourceFile&) = delete;  // the decompressor holds its address
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }

  /// Writes the next bytes to `out` and returns their number: less than requested only at the end. When the end is
  /// reached, the checksums of the compression have been verified. Errors: data (damaged, truncated), io, naming the
  /// file.
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
