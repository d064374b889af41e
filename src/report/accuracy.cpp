#include "src/report/accuracy.h"

#include <fmt/format.h>

namespace carillon {

std::string Accuracy::text() const { return fmt::format("precision @ 1 = {:.3f} ({}/{})", value(), correct, total); }

}  // namespace carillon
