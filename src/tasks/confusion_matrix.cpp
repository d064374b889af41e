#include "src/tasks/confusion_matrix.h"

namespace carillon {

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
