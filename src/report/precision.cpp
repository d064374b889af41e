#include "carillon/report/precision.h"

#include <fmt/format.h>

namespace carillon {

std::string Precision::text() const { return fmt::format("precision @ 1 = {:.3f} ({}/{})", value(), correct, total); }

}  // namespace carillon
