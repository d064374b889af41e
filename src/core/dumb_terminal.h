// Dumb terminal: a terminal without cursor movement.
#pragma once

#include <cstdlib>
#include <string_view>

namespace carillon {

/// Whether the terminal can only append text: TERM is "dumb", empty or not set. Then progress lines are not redrawn.
inline bool is_dumb_terminal() {
  const char* const type = std::getenv("TERM");
  return type == nullptr || *type == '\0' || type == std::string_view("dumb");
}

}  // namespace carillon
