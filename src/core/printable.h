// printable: text from outside (file names, option values, names in files) made fit for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace carillon {

inline constexpr std::size_t max_line_bytes = 1000;

/// `text` with control characters, C1 ones too, and what is not UTF-8 as \xNN of each byte. Of a longer text than
/// `max_bytes` the middle is left out: both ends of a message tell something.
std::string printable(std::string_view text, std::size_t max_bytes = max_line_bytes);

}  // namespace carillon
