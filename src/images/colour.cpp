#include "src/images/colour.h"

#include <fmt/format.h>

#include <charconv>

namespace carillon {

std::optional<Colour> parse_colour(std::string_view text) {
  if (text == "white") return Colour{};
  if (text == "black") return Colour{0, 0, 0};
  if (text.size() != 7 || text.front() != '#') return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Colour{static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
                static_cast<std::uint8_t>(value)};
}

std::string colour_text(const Colour& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace carillon
