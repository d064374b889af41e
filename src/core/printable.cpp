#include "src/core/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace carillon {
namespace {

/// The length of the UTF-8 character (RFC 3629) at the start of `text`; 0 if it is invalid or a control character.
std::size_t shown_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool is_c1 = first == 0xC2 && second < 0xA0;
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return is_c1 || is_overlong || is_outside ? 0 : length;
}

void append_printable(std::string& shown, std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = shown_bytes(text);
    if (bytes > 0) {
      shown += text.substr(0, bytes);
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string shown;
  if (text.size() <= max_bytes) {
    append_printable(shown, text);
    return shown;
  }
  const std::size_t tail = max_bytes / 3, head = max_bytes - tail;
  append_printable(shown, text.substr(0, head));
  shown += fmt::format("...[{} bytes]...", text.size() - max_bytes);
  append_printable(shown, text.substr(text.size() - tail));
  return shown;
}

}  // namespace carillon
