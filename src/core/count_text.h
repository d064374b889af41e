// count_text: a number with its noun, "1 file" or "3 files".
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace carillon {

/// `noun`: in the singular; its plural ends in s.
std::string count_text(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace carillon
