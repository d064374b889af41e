#include "src/tasks/accuracy.h"

#include <fmt/format.h>

namespace carillon {

Score Accuracy::score() const {
  return {.name = "accuracy",
          .value = value(),
          .log_name = "precision",
          .tag = "precision @ 1",
          .ratio = Ratio{.part_name = "correct", .whole_name = "total", .part = correct, .whole = total}};
}

std::string Accuracy::text() const { return fmt::format("precision @ 1 = {:.3f} ({}/{})", value(), correct, total); }

}  // namespace carillon
