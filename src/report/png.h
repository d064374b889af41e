// PNG files in memory, by libpng.
#pragma once

#include <string>

#include "carillon/report/event_writer.h"

namespace carillon {

/// Errors: failed (a picture that is neither grey nor RGB, or whose pixels are not as many as it says).
std::string encode_png(const Picture& picture);

}  // namespace carillon
