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

// Parts that all libarchive readers have: handle, error text and input.

using ArchiveHandle = Handle<archive*, archive_read_free>;

/// Returns the text of libarchive's last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "unknown cause";
}

/// Passes the bytes of `input` to libarchive. If `input` throws, stores the exception until libarchive has returned.
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

/// Returns the compression format that the first bytes of `data` show: "xz", "bzip2" or "zstd". Returns an empty text
/// for other data.
std::string_view compression_name(std::span<const std::byte> data);

class Decompressor {
 public:
  /// `name`: the compression_name of the data. Errors: see `read`.
  Decompressor(std::string_view name, ByteInput compressed);

  /// Writes decompressed bytes to `out` and returns their number. The number is less than requested only at the end;
  /// after the end, it is 0. Errors: data (the data are truncated or damaged; the message does not contain the file's
  /// name); errors of the input.
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
  /// Opens the file. The reader decompresses GZIP, xz, bzip2 and zstd. Errors: see open_plain_file; data (the file is
  /// damaged or is a zip file); io.
  explicit SourceFile(std::string path);
  SourceFile(const SourceFile&) = delete;  // the decompressor holds the address of this object
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }

  /// Writes the next bytes to `out` and returns their number, which is less than requested only at the end. Verifies
  /// the checksums of the compression format before it reports the end. Errors: data (the file is damaged or
  /// truncated), io; the message names the file.
  std::size_t read(std::span<std::byte> out);

  /// Returns the next `bytes` bytes, or fewer bytes at the end. Allocates memory only for bytes that arrive. Errors:
  /// see `read`.
  std::vector<std::uint8_t> take(std::size_t bytes);

 private:
  std::size_t read_stored(std::span<std::byte> out);

  std::string path_;
  Descriptor file_;  // read, not mapped: if the file becomes shorter, a read only ends early
  std::array<std::byte, 8> first_{};
  std::span<const std::byte> unread_;  // unread part of first_
  std::optional<GzipStream> gzip_;
  std::optional<Decompressor> other_;
};

struct ArchiveMember {
  std::string name;         ///< name of the member, with its folders
  std::uint64_t bytes = 0;  ///< content size
  bool is_file = false;     ///< true for a regular file, false for a directory or link
};

/// Reads the members of a tar archive in order. The archive may be plain or compressed. Uses libarchive, and supports
/// all tar variants of libarchive (ustar, GNU, pax) with long names, and the compressions of SourceFile.
class ArchiveReader {
 public:
  /// Opens the archive. Refuses archives of more than `max_bytes` (unpacked), because they could fill the memory.
  /// Errors: see SourceFile; data (the file is not a tar archive).
  ArchiveReader(const std::string& path, std::uint64_t max_bytes);
  ArchiveReader(const ArchiveReader&) = delete;  // libarchive holds the address of this object
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  const std::string& path() const { return file_.path(); }

  /// Moves to the next member; returns false after the last member. Before it returns false, it reads the whole
  /// compressed file and verifies the file's checksum. Errors: data (the file is not a tar archive, or the archive is
  /// damaged, truncated or too large); the message names the file.
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
  std::uint64_t member_bytes_ = 0;   // total content size of the members that have been read so far
  ArchiveMember member_;
  bool has_member_ = false;
  ArchiveInput input_;
  ArchiveHandle archive_;  // the last member variable, because it reads from the member variables above
};

}  // namespace carillon
