// ConfusionMatrix: counts samples by true class and predicted class.
//
//   row [true class], column [predicted class], each 0 .. n - 1
//   m(t, p): samples of class t with the predicted class p. For a class c:
//     support(c) = sum_p m(c, p)       precision(c) = m(c, c) / predicted(c)
//     predicted(c) = sum_t m(t, c)     recall(c) = m(c, c) / support(c)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/tasks/accuracy.h"
#include "src/tasks/class_counts.h"

namespace carillon {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::size_t class_count)
      : class_count_(class_count), counts_(class_count * class_count, 0) {}

  std::size_t class_count() const { return class_count_; }
  /// Counts of the samples with this true class, [predicted class].
  std::span<std::int64_t> row(std::size_t label) {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }
  std::span<const std::int64_t> row(std::size_t label) const {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }

  ClassCounts of_class(std::size_t label) const;
  /// Accuracy over all samples: the trace divided by the sum.
  Accuracy accuracy() const;

 private:
  std::size_t class_count_;
  std::vector<std::int64_t> counts_;  // [true class, predicted class]
};

}  // namespace carillon
