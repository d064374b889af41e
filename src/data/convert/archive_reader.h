// ArchiveReader: reads the members of a tar archive in order, plain or compressed, with libarchive.
//
// Supports all tar variants of libarchive (ustar, GNU, pax) with long names, and the compressions of SourceFile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/convert/source_file.h"

namespace carillon {

struct ArchiveMember {
  std::string name;         ///< including folders
  std::uint64_t bytes = 0;  ///< content size
  bool is_file = false;     ///< true for a regular file, false for a directory or link
};

class ArchiveReader {
 public:
  /// Opens the archive. Archives of more than `max_bytes` (unpacked) are refused, so that they cannot fill the memory.
  /// Errors: as SourceFile; data (not a tar archive).
  ArchiveReader(const std::string& path, std::uint64_t max_bytes);
  ArchiveReader(const ArchiveReader&) = delete;  // libarchive holds its address
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  const std::string& path() const { return file_.path(); }

  /// Moves to the next member; returns false after the last member. When it returns false, it has read the whole
  /// compressed file and verified the file's checksum. Errors: data, naming the file (not a tar archive, or a damaged,
  /// truncated or too large archive).
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
  ArchiveHandle archive_;  // last: it reads from the members above
};

}  // namespace carillon
