// size_text: a number of bytes for a line of text.
#pragma once

#include <string>

namespace carillon {

/// A size in a suitable unit: "1.59 MB", "38.0 GB".
std::string size_text(double bytes);

}  // namespace carillon
