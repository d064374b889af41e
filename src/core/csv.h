// CSV (RFC 4180): reads a file with a header, and writes fields.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

struct CsvTable {
  struct Row {
    std::size_t line = 0;            ///< number of its first line in the file, from 1
    std::vector<std::string> cells;  ///< as many as `header`
  };

  std::vector<std::string> header;
  std::vector<Row> rows;
};

/// Reads a file of at most `max_bytes` with commas between cells. A cell in quotes may contain commas, line breaks and,
/// as "", quotes. Empty lines are ignored. Encodings and line ends: as read_text_file. Errors: as read_text_file; data
/// (a larger file; no header; a line with another number of cells than the header; text after a closing quote; a quote
/// that is not closed). The message contains `name` and, for an error in a line, the line number.
CsvTable read_csv(const std::filesystem::path& path, const std::string& name, std::size_t max_bytes);

/// `cell` without spaces and tabs around it.
std::string_view csv_trimmed(std::string_view cell);
/// Parses the number in a cell; spaces around the number are ignored. Returns nullopt if the cell is not a number. The
/// number may be infinite or NaN (number_of).
std::optional<double> csv_number(std::string_view cell);

inline constexpr std::string_view csv_line_end = "\r\n";

/// `text` as a field, in quotes if the text requires them. Bytes that are not UTF-8 become \xNN, because readers refuse
/// a file with such bytes.
std::string csv_field(std::string_view text);

}  // namespace carillon
