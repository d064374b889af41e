// CSV: fields of a line, as in RFC 4180.
#pragma once

#include <string>
#include <string_view>

namespace carillon {

inline constexpr std::string_view csv_line_end = "\r\n";

/// `text` as a field: in quotes if it requires them. Bytes are not changed otherwise.
std::string csv_field(std::string_view text);

}  // namespace carillon
