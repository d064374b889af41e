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
/// as "", quotes. Lines end in LF or CRLF; empty lines and a byte order mark are ignored. Errors, naming `name`:
/// no_input, io, data (a larger file, no header). data, also naming the line: another number of cells than in the
/// header, text after a closing quote, a quote that is not closed.
CsvTable read_csv(const std::filesystem::path& path, const std::string& name, std::size_t max_bytes);

/// `cell` without spaces and tabs around it.
std::string_view csv_trimmed(std::string_view cell);
/// The number in a cell, with spaces around it or not. Nothing: another text. May be infinite or NaN.
std::optional<double> csv_number(std::string_view cell);

inline constexpr std::string_view csv_line_end = "\r\n";

/// `text` as a field: in quotes if it requires them. Bytes are not changed otherwise.
std::string csv_field(std::string_view text);

}  // namespace carillon
