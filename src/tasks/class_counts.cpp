#include "src/tasks/class_counts.h"

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

ClassCounts ConfusionMatrix::of_class(std::size_t label) const {
  ClassCounts result{.correct = row(label)[label]};
  for (std::size_t other = 0; other < class_count_; ++other) {
    result.support += row(label)[other];
    result.predicted += row(other)[label];
  }
  return result;
}

Accuracy ConfusionMatrix::accuracy() const {
  Accuracy all;
  for (std::size_t label = 0; label < class_count_; ++label) {
    all.correct += row(label)[label];
    for (const std::int64_t count : row(label)) all.total += count;
  }
  return all;
}

}  // namespace carillon
