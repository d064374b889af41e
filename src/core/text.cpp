#include "src/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace carillon {
namespace {

struct Range {
  char32_t first, last;
};

// Characters that have no width. They change the order or the position of other characters, or make two different texts
// look equal. Source: Default_Ignorable_Code_Point of Unicode 15.0 (DerivedCoreProperties.txt), the line and paragraph
// separators, and the interlinear annotations. U+FFFE and U+FFFF are not characters, and XML forbids them.
constexpr std::array<Range, 18> hidden{{{0x00AD, 0x00AD},
                                        {0x034F, 0x034F},
                                        {0x061C, 0x061C},
                                        {0x115F, 0x1160},
                                        {0x17B4, 0x17B5},
                                        {0x180B, 0x180F},
                                        {0x200B, 0x200F},
                                        {0x2028, 0x202E},
                                        {0x2060, 0x206F},
                                        {0x3164, 0x3164},
                                        {0xFE00, 0xFE0F},
                                        {0xFEFF, 0xFEFF},
                                        {0xFFA0, 0xFFA0},
                                        {0xFFF0, 0xFFFB},
                                        {0xFFFE, 0xFFFF},
                                        {0x1BCA0, 0x1BCA3},
                                        {0x1D173, 0x1D17A},
                                        {0xE0000, 0xE0FFF}}};

template <typename Holds>
bool all_of(std::string_view text, Holds holds) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!holds(character)) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

/// Appends `text`. Writes \xNN for each byte of a character that is not shown, and a backslash before each character of
/// `escaped`.
void append_printable(std::string& shown, std::string_view text, std::string_view escaped = "") {
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    if (character.is_shown()) {
      if (escaped.find(text.front()) != escaped.npos) shown += '\\';
      shown += text.substr(0, bytes);
    } else {
      for (const char byte : text.substr(0, bytes)) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(bytes);
  }
}

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0) return {};
  char32_t code = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_outside = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  if (is_overlong || is_outside) return {};
  return {length, code};
}

bool Character::is_shown() const {
  if (bytes == 0 || is_control()) return false;
  return std::ranges::none_of(hidden, [&](const Range& range) { return code >= range.first && code <= range.last; });
}

bool is_line(std::string_view text) {
  return all_of(text, [](const Character& one) { return one.bytes > 0 && !one.is_control(); });
}

bool is_printable(std::string_view text) {
  return all_of(text, [](const Character& one) { return one.is_shown(); });
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (std::size_t bytes = 0; !text.empty(); text.remove_prefix(bytes)) {
    const Character character = first_character(text);
    bytes = std::max<std::size_t>(character.bytes, 1);
    if (character.bytes > 0) {
      valid += text.substr(0, bytes);
    } else {
      valid += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
  }
  return valid;
}

std::string printable_with(std::string_view escaped, std::string_view text) {
  std::string shown;
  append_printable(shown, text, escaped);
  return shown;
}

std::string printable_json(std::string_view json) {
  std::string shown;
  for (std::size_t bytes = 0; !json.empty(); json.remove_prefix(bytes)) {
    const Character character = first_character(json);
    bytes = std::max<std::size_t>(character.bytes, 1);
    const bool is_escaped = character.code >= 0x7F && !character.is_shown();
    if (!is_escaped) {
      shown += json.substr(0, bytes);
    } else if (character.code < 0x10000) {
      shown += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
    } else {
      const auto code = static_cast<std::uint32_t>(character.code) - 0x10000;  // a surrogate pair
      shown += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
    }
  }
  return shown;
}

namespace {

/// Returns the index of the first byte of the character that contains byte `at`. If the bytes there are not valid
/// UTF-8, returns `at`.
std::size_t start_of_character(std::string_view text, std::size_t at) {
  constexpr std::size_t most = 3;  // the most bytes that a character has before its last byte
  for (std::size_t start = at - std::min(at, most); start < at; ++start) {
    if (start + first_character(text.substr(start)).bytes > at) return start;
  }
  return at;
}

/// Returns the index of the byte after the character that contains the bytes at - 1 and at. If there is no such
/// character, returns `at`.
std::size_t end_of_character(std::string_view text, std::size_t at) {
  if (at >= text.size()) return at;
  const std::size_t start = start_of_character(text, at);
  return start < at ? start + first_character(text.substr(start)).bytes : at;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string shown;
  if (text.size() <= max_bytes) {
    append_printable(shown, text);
    return shown;
  }
  const std::size_t tail_bytes = max_bytes / 3;
  const std::size_t head = start_of_character(text, max_bytes - tail_bytes);
  const std::size_t tail = end_of_character(text, text.size() - tail_bytes);
  append_printable(shown, text.substr(0, head));
  shown += fmt::format("...[{} bytes]...", tail - head);
  append_printable(shown, text.substr(tail));
  return shown;
}

std::string size_text(double bytes) {
  constexpr std::array units{"bytes", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  if (unit == 0) return fmt::format("{} {}", bytes, units[unit]);
  return bytes < 10 ? fmt::format("{:.2f} {}", bytes, units[unit]) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::optional<double> number_of(std::string_view text) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // std::from_chars reports the same error for numbers that are too large and for numbers that are too small.
  if (error == std::errc::result_out_of_range) number = std::strtod(std::string(text).c_str(), nullptr);
  return number;
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted.append(c == '\'' ? "'\\''" : std::string_view(&c, 1));
  return quoted + "'";
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!is_printable(text)) return "$'" + printable_with("\\'", text) + "'";
  return !text.empty() && std::ranges::all_of(text, is_plain) ? std::string(text) : shell_quoted(text);
}

}  // namespace carillon
