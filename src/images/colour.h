// Colours as text: #rrggbb, white, black.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "carillon/images/decode.h"

namespace carillon {

/// Empty if the text is no colour.
std::optional<Colour> parse_colour(std::string_view text);

/// #rrggbb.
std::string colour_text(const Colour& colour);

}  // namespace carillon
