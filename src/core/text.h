// Text for one line of a terminal: external text with escaped control characters, counts, sizes, and quoted words for a
// shell.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carillon {

inline constexpr std::size_t max_line_bytes = 1000;

/// A UTF-8 character at the start of a text.
struct Character {
  std::size_t bytes = 0;  ///< length in bytes; 0: invalid UTF-8 (RFC 3629)
  char32_t code = 0;

  bool is_control() const { return code < 0x20 || (code >= 0x7F && code < 0xA0); }
  bool is_shown() const;  ///< true: `printable` keeps the character unescaped
};
/// Reads the first character of the text. Requires a text of at least one byte.
Character first_character(std::string_view text);

/// Escapes as \xNN each byte of control characters (C0 and C1), invisible characters such as U+200B, text-direction
/// marks such as U+202E, line separators and invalid UTF-8. If the text is longer than `max_bytes`, omits its middle:
/// the beginning and the end of a message contain the most information.
std::string printable(std::string_view text, std::size_t max_bytes = max_line_bytes);

/// True if the text is valid UTF-8 without control characters. The text may contain invisible characters, which some
/// languages need in words.
bool is_line(std::string_view text);

/// True if `printable` escapes nothing in the text.
bool is_printable(std::string_view text);

/// Returns the text as valid UTF-8. Writes \xNN instead of each byte that is not valid UTF-8.
std::string valid_utf8(std::string_view text);

/// Escapes the text like `printable`, but without a length limit, and adds a backslash before each ASCII character that
/// `escaped` contains.
std::string printable_with(std::string_view escaped, std::string_view text);

/// Returns a JSON text with \uNNNN instead of each character that `printable` would escape. The JSON value stays the
/// same, because such characters occur only in strings.
std::string printable_json(std::string_view json);

/// Returns a number with its noun: "1 file", "3 files". `noun`: the singular; the plural must end in s.
std::string count_text(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Returns a size in a suitable unit: "1.59 MB", "38.0 GB".
std::string size_text(double bytes);

/// Converts the whole text to a number. Returns nullopt if the text is not a number. A number that a double cannot
/// represent becomes infinite or 0. "inf" and "nan" count as numbers.
std::optional<double> number_of(std::string_view text);

/// Returns `text` in single quotes, for a shell (POSIX).
std::string shell_quoted(std::string_view text);

/// Returns `text`. Adds quotes only if a shell would otherwise change it.
std::string shell_word(std::string_view text);

}  // namespace carillon
