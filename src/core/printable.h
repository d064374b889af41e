// printable: makes external text (file names, option values, names in files) safe for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace carillon {

inline constexpr std::size_t max_line_bytes = 1000;

/// `text` with control characters (C0 and C1) and invalid UTF-8 as \xNN per byte. If it is longer than `max_bytes`, the
/// middle is omitted, because both ends of a message are informative.
std::string printable(std::string_view text, std::size_t max_bytes = max_line_bytes);

}  // namespace carillon
