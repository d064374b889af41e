// TarReader: the members of a tar archive, plain or GZIP, one after the other.
//
// Format (POSIX.1-1988 ustar; GNU and pax archives have its form too): blocks of 512 bytes. A member is a header block
// and its content, padded to whole blocks; a block of zeros ends the archive. Of the header:
//   0 name[100] | 124 size[12] | 148 checksum[8] | 156 type[1] | 257 magic[5] "ustar" | 345 prefix[155]
// Numbers are octal text, or base 256 when the first bit is set (GNU). The checksum is the sum of the header's bytes
// with the checksum's own taken as spaces. Long names (GNU's type L, pax headers) are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/sources/source_file.h"

namespace carillon {

struct TarMember {
  std::string name;
  std::uint64_t bytes = 0;
  bool is_file = false;  ///< a regular file: no directory, link or extended header
};

class TarReader {
 public:
  /// Archives that inflate to more than `max_bytes` are refused. Errors: those of SourceFile.
  TarReader(const std::string& path, std::uint64_t max_bytes);

  const std::string& path() const { return file_.path(); }

  /// The next member; false after the last, when the rest of a GZIP file, its checksum too, has been read.
  /// Errors: data, naming the file (no tar archive, a wrong checksum, a cut archive, one that is too large).
  bool next(TarMember& member);

  /// The content of the member that `next` gave last. Call it once. Errors: data (the archive is cut).
  std::vector<std::uint8_t> content();

 private:
  void finish_member();

  SourceFile file_;
  std::uint64_t max_bytes_;
  std::uint64_t position_ = 0;      // in the inflated archive
  std::uint64_t unread_bytes_ = 0;  // of the member's content
  TarMember member_;
};

}  // namespace carillon
