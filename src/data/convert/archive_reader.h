// ArchiveReader: the members of a tar archive, plain or compressed, one after the other, read by libarchive.
//
// All of tar's forms that libarchive knows (ustar, GNU, pax) with their long names; the compressions of SourceFile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/convert/libarchive.h"
#include "src/data/convert/source_file.h"

namespace carillon {

struct ArchiveMember {
  std::string name;         ///< with its folders
  std::uint64_t bytes = 0;  ///< of its content
  bool is_file = false;     ///< a regular file: no directory, no link
};

class ArchiveReader {
 public:
  /// An archive of more than `max_bytes`, unpacked, is refused before it takes so much memory.
  /// Errors: those of SourceFile; data (no tar archive).
  ArchiveReader(const std::string& path, std::uint64_t max_bytes);
  ArchiveReader(const ArchiveReader&) = delete;  // libarchive holds its address
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  const std::string& path() const { return file_.path(); }

  /// The next member; false after the last, when the rest of a compressed file, its checksum too, has been read.
  /// Errors: data, naming the file (no tar archive, a damaged or cut archive, one that is too large).
  bool next(ArchiveMember& member);

  /// The content of the member that `next` gave last. Call it once. Errors: data (the archive is cut or damaged).
  std::vector<std::uint8_t> content();

 private:
  std::size_t read_file(std::span<std::byte> out);
  [[noreturn]] void fail_with(const std::string& cause) const;
  [[noreturn]] void fail_too_large(const std::string& what) const;

  SourceFile file_;
  std::uint64_t max_bytes_;
  std::uint64_t arrived_bytes_ = 0;  // of the archive, decompressed
  std::uint64_t member_bytes_ = 0;   // of the contents of all members so far
  ArchiveMember member_;
  bool has_member_ = false;
  ArchiveInput input_;
  ArchiveHandle archive_;  // last: it reads from the others
};

}  // namespace carillon
