// HTML text: makes external text and bytes safe for an HTML document that is also well-formed XML.
#pragma once

#include <string>
#include <string_view>

namespace carillon {

/// `text` for an element or a quoted attribute. Control characters, marks of direction and bytes that are not UTF-8
/// become \xNN (printable). The middle of a long text is omitted.
std::string html_text(std::string_view text, std::size_t max_bytes = 200);

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace carillon
