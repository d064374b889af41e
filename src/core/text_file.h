// Text files that people and other programs write: lists, configurations, and tables in CSV (RFC 4180).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {

/// Returns the text of a regular file as UTF-8. Removes a byte order mark. CR LF and CR become LF. UTF-16 becomes
/// UTF-8; if there is no byte order mark, the zero byte of the first character shows that the file is UTF-16. Bytes
/// that are not valid UTF-8 do not change, because file names may contain them. Errors: as read_plain_file, and
/// `unsuitable` (the text is invalid UTF-16, or contains a NUL character, which would end a file name).
std::string read_text_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                           ExitCode unsuitable = ExitCode::data);

struct CsvTable {
  struct Row {
    std::size_t line = 0;            ///< number of the row's first line in the file, from 1
    std::vector<std::string> cells;  ///< one cell for each cell of `header`
  };

  std::vector<std::string> header;
  std::vector<Row> rows;
};

/// Reads a file of at most `max_bytes` with commas between cells. A cell in quotes may contain commas, line breaks and
/// quotes (written as ""). Empty lines are ignored. Encodings and line ends: as read_text_file. Errors: as
/// read_text_file; data (the file is larger; it has no header; a line and the header have different numbers of cells;
/// there is text after a closing quote; a quote is not closed). The message contains `name` and, for an error in a
/// line, the line number.
CsvTable read_csv(const std::filesystem::path& path, const std::string& name, std::size_t max_bytes);

/// Returns `cell` without the spaces and tabs at its beginning and end.
std::string_view csv_trimmed(std::string_view cell);
/// Parses the number in a cell, and ignores spaces around the number. Returns nullopt if the cell is not a number. The
/// number may be infinite or NaN (number_of).
std::optional<double> csv_number(std::string_view cell);

inline constexpr std::string_view csv_line_end = "\r\n";

/// Returns `text` as a field of a CSV file, in quotes if the text requires them. Bytes that are not UTF-8 become \xNN,
/// because readers refuse a file with such bytes.
std::string csv_field(std::string_view text);

}  // namespace carillon
