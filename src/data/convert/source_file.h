// Published files of a dataset: SourceFile reads a file, plain or compressed; ArchiveReader reads the members of a tar
// archive.
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

/// The text of libarchive's last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "unknown cause";
}

/// Passes the bytes of `input` to libarchive. Exceptions of `input` are stored until libarchive has returned.
class ArchiveInput {
 public:
  explicit ArchiveInput(ByteInput input);
  ArchiveInput(const ArchiveInput&) = delete;  // libarchive holds the address of this object
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

/// The compression format that the first bytes of `data` show: "xz", "bzip2" or "zstd"; empty for other data.
std::string_view compression_name(std::span<const std::byte> data);

class Decompressor {
 public:
  /// `name`: the compression_name of the data. Errors: as `read`.
  Decompressor(std::string_view name, ByteInput compressed);

  /// Writes decompressed bytes to `out` and returns their number: less than requested only at the end, and 0 after the
  /// end. Errors: data (truncated or damaged), without the file's name; errors of the input.
  std::size_t read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail_damaged() const;

  std::string_view name_;
  ArchiveInput input_;
  ArchiveHandle archive_;
};

/// Reads a file sequentially, plain or compressed.
class SourceFile {
 public:
  /// Opens the file; GZIP, xz, bzip2 and zstd are decompressed. Errors: as open_plain_file; data (damage, or a zip
  /// file); io.
  explicit SourceFile(std::string path);
  SourceFile(const SourceFile&) = delete;  // the decompressor holds the address of this object
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }

  /// Writes the next bytes to `out` and returns their number: less than requested only at the end. Before it reports
  /// the end, it has verified the checksums of the compression format. Errors: data (damaged, truncated), io; the
  /// message names the file.
  std::size_t read(std::span<std::byte> out);

  /// Returns the next `bytes` bytes, or fewer at the end. Memory grows only as bytes arrive. Errors: as `read`.
  std::vector<std::uint8_t> take(std::size_t bytes);

 private:
  std::size_t read_stored(std::span<std::byte> out);

  std::string path_;
  Descriptor file_;  // read instead of mapped: a read of a file that becomes shorter only ends early
  std::array<std::byte, 8> first_{};
  std::span<const std::byte> unread_;  // unread part of first_
  std::optional<GzipStream> gzip_;
  std::optional<Decompressor> other_;
};

struct ArchiveMember {
  std::string name;         ///< including folders
  std::uint64_t bytes = 0;  ///< content size
  bool is_file = false;     ///< true for a regular file, false for a directory or link
};

/// Reads the members of a tar archive in order, plain or compressed, with libarchive. Supports all tar variants of
/// libarchive (ustar, GNU, pax) with long names, and the compressions of SourceFile.
class ArchiveReader {
 public:
  /// Opens the archive. Archives of more than `max_bytes` (unpacked) are refused, so that they cannot fill the memory.
  /// Errors: as SourceFile; data (not a tar archive).
  ArchiveReader(const std::string& path, std::uint64_t max_bytes);
  ArchiveReader(const ArchiveReader&) = delete;  // libarchive holds the address of this object
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  const std::string& path() const { return file_.path(); }

  /// Moves to the next member; returns false after the last member. When it returns false, it has read the whole
  /// compressed file and verified the file's checksum. Errors: data (not a tar archive, or a damaged, truncated or too
  /// large archive); the message names the file.
  bool next(ArchiveMember& member);

  /// Returns the content of the member that `next` returned last. Call it once per member. Errors: data (the archive is
  /// truncated or damaged).
  std::vector<std::uint8_t> content();

 private:
  std::size_t read_file(std::span<std::byte> out);
  [[noreturn]] void fail_with(const std::string& cause) const;
  [[noreturn]] void fail_too_large(const std::string& what) const;

  SourceFile file_;
  std::uint64_t max_bytes_;
  std::uint64_t arrived_bytes_ = 0;  // decompressed bytes of the archive that were read
  std::uint64_t member_bytes_ = 0;   // total content size of the members up to now
  ArchiveMember member_;
  bool has_member_ = false;
  ArchiveInput input_;
  ArchiveHandle archive_;  // last member, because it reads from the members above
};

}  // namespace carillon
