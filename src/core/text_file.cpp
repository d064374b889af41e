#include "src/core/text_file.h"

#include <algorithm>

#include "carillon/core/file.h"
#include "src/core/text.h"

namespace carillon {
namespace {

enum class Encoding { bytes, utf16_little, utf16_big };

/// The encoding of a text, and the number of bytes of its byte order mark.
struct Start {
  Encoding encoding = Encoding::bytes;
  std::size_t mark_bytes = 0;
};

Start start_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return {Encoding::bytes, 3};
  if (text.starts_with("\xFF\xFE")) return {Encoding::utf16_little, 2};
  if (text.starts_with("\xFE\xFF")) return {Encoding::utf16_big, 2};
  if (text.size() >= 2 && text[0] != '\0' && text[1] == '\0') return {Encoding::utf16_little, 0};
  if (text.size() >= 2 && text[0] == '\0' && text[1] != '\0') return {Encoding::utf16_big, 0};
  return {};
}

void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  const auto add_rest = [&](int shift) { add(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add_rest(0);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add_rest(6);
    add_rest(0);
  } else {
    add(0xF0 | code >> 18);
    add_rest(12);
    add_rest(6);
    add_rest(0);
  }
}

/// Returns nullopt for an odd number of bytes, or for half of a surrogate pair (RFC 2781).
std::optional<std::string> utf8_of_utf16(std::string_view bytes, bool is_big) {
  if (bytes.size() % 2 != 0) return std::nullopt;
  const auto unit = [&](std::size_t i) {
    const auto first = static_cast<unsigned char>(bytes[i]), second = static_cast<unsigned char>(bytes[i + 1]);
    return static_cast<char32_t>(is_big ? first << 8 | second : second << 8 | first);
  };
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    char32_t code = unit(i);
    if (code >= 0xD800 && code < 0xE000) {
      const char32_t low = i + 2 < bytes.size() ? unit(i += 2) : 0;
      if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return std::nullopt;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(text, code);
  }
  return text;
}

/// Replaces CR LF and CR by LF.
void unify_line_ends(std::string& text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_return = text[i] == '\r';
    if (is_return && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[end++] = is_return ? '\n' : text[i];
  }
  text.resize(end);
}

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

std::string read_text_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                           ExitCode unsuitable) {
  std::string text = read_plain_file(path, subject, max_bytes, unsuitable);
  const Start start = start_of(text);
  if (start.encoding == Encoding::bytes) {
    text.erase(0, start.mark_bytes);
  } else {
    const std::string_view units = std::string_view(text).substr(start.mark_bytes);
    std::optional<std::string> converted = utf8_of_utf16(units, start.encoding == Encoding::utf16_big);
    if (!converted) fail(unsuitable, "{}: is damaged UTF-16: save it as UTF-8", subject);
    text = *std::move(converted);
  }
  unify_line_ends(text);
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    fail(unsuitable, "{}: line {} has a NUL character: save the file as UTF-8 text", subject,
         1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n'));
  }
  return text;
}

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
