#include "src/core/shell_word.h"

#include <algorithm>
#include <cctype>

#include "src/core/printable.h"

namespace carillon {

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
