// LinesFromEnd: reads the lines of a file from the last one to the first, in blocks. So memory does not depend on the
// size of the file, and a reader that needs only the last lines reads no others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "carillon/core/file.h"

namespace carillon {

class LinesFromEnd {
 public:
  /// Longer lines have no text: nothing that writes a log writes such lines.
  static constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

  /// Opens a regular file. Errors of all members: as open_plain_file.
  explicit LinesFromEnd(const std::filesystem::path& path);

  struct Line {
    std::string text;            ///< without its newline
    std::uint64_t end_byte = 0;  ///< offset of the byte after its newline
  };
  /// The line before the last returned one; first the last complete line of the file. None: there is no other line.
  std::optional<Line> next();

 private:
  std::uint64_t after_newline(std::uint64_t end_byte);
  std::string read(std::uint64_t begin_byte, std::size_t bytes) const;

  std::string name_;
  Descriptor file_;
  std::uint64_t end_byte_ = 0;  ///< the lines from here on have been returned
  std::uint64_t block_begin_ = 0;
  std::string block_;  ///< the bytes from block_begin_ on, for the search of newlines
};

}  // namespace carillon
