// CsvTable: the lines of a CSV file (RFC 4180) with a header.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
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

/// Reads a file with commas between cells. A cell in quotes may contain commas, line breaks and, as "", quotes. Lines
/// end in LF or CRLF; empty lines and a byte order mark are ignored. Errors: no_input, io; data, naming file and line
/// (a row with another number of cells than the header, text after a closing quote, a quote that is not closed, no
/// header).
CsvTable read_csv(const std::filesystem::path& path);

}  // namespace carillon
