#include "src/core/csv.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/core/text_file.h"

namespace carillon {
namespace {

class CsvReader {
 public:
  CsvReader(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {}

  /// Reads the next row that is not an empty line; returns false at the end.
  bool next(CsvTable::Row& row) {
    while (skip_line_end()) {
    }
    if (text_.empty()) return false;
    row = {.line = line_, .cells = {}};
    do {
      row.cells.push_back(text_.starts_with('"') ? quoted_cell(row.line) : plain_cell());
    } while (skip(","));
    if (!text_.empty() && !skip_line_end()) fail_at(row.line, "has text after a closing quote");
    return true;
  }

  [[noreturn]] void fail_at(std::size_t line, std::string_view what) const {
    fail(ExitCode::data, "{}: line {} {}", printable(name_), line, what);
  }

 private:
  bool skip(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  bool skip_line_end() {
    if (!skip("\n")) return false;
    ++line_;
    return true;
  }

  std::string plain_cell() {
    const std::size_t end = std::min(text_.find_first_of(",\n"), text_.size());
    std::string cell(text_.substr(0, end));
    text_.remove_prefix(end);
    return cell;
  }

  std::string quoted_cell(std::size_t line) {
    std::string cell;
    text_.remove_prefix(1);
    while (!text_.empty()) {
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c == '"' && !skip("\"")) return cell;
      if (c == '\n') ++line_;
      cell += c;
    }
    fail_at(line, "has a quote that is not closed");
  }

  std::string name_;
  std::string_view text_;
  std::size_t line_ = 1;
};

}  // namespace

CsvTable read_csv(const std::filesystem::path& path, const std::string& name, std::size_t max_bytes) {
  const std::string text = read_text_file(path, name, max_bytes);
  CsvReader reader(name, text);
  CsvTable table;
  CsvTable::Row row;
  if (!reader.next(row)) {
    fail(ExitCode::data, "{}: is empty; its first line must name the columns", printable(name));
  }
  table.header = std::move(row.cells);
  while (reader.next(row)) {
    if (row.cells.size() != table.header.size()) {
      reader.fail_at(row.line,
                     fmt::format("has {} cells, and the header has {}", row.cells.size(), table.header.size()));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string_view csv_trimmed(std::string_view cell) {
  constexpr std::string_view spaces = " \t\r\n";
  const std::size_t begin = cell.find_first_not_of(spaces);
  return begin == cell.npos ? "" : cell.substr(begin, cell.find_last_not_of(spaces) + 1 - begin);
}

std::optional<double> csv_number(std::string_view cell) {
  cell = csv_trimmed(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  return number_of(cell);
}

std::string csv_field(std::string_view text) {
  const std::string valid = valid_utf8(text);
  if (valid.find_first_of(",\"\r\n") == valid.npos) return valid;
  std::string field = "\"";
  for (const char c : valid) field.append(c == '"' ? "\"\"" : std::string_view(&c, 1));
  return field + "\"";
}

}  // namespace carillon
