// ConfusionMatrix: the number of samples of each class that a classifier assigns to each class.
//
//   row [true class], column [predicted class], each 0 .. n - 1
//   m(t, p): samples of class t with the predicted class p. For a class c:
//     support(c) = sum_p m(c, p)       precision(c) = m(c, c) / predicted(c)
//     predicted(c) = sum_t m(t, c)     recall(c) = m(c, c) / support(c)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/tasks/accuracy.h"

namespace carillon {

class ConfusionMatrix {
 public:
  /// One class against all others.
  struct OfClass {
    std::int64_t support = 0, predicted = 0, correct = 0;
    std::optional<double> precision() const { return ratio(correct, predicted); }  ///< none: never predicted
    std::optional<double> recall() const { return ratio(correct, support); }       ///< none: no samples

   private:
    static std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
      return whole > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(whole)) : std::nullopt;
    }
  };

  explicit ConfusionMatrix(std::size_t class_count)
      : class_count_(class_count), counts_(class_count * class_count, 0) {}

  std::size_t class_count() const { return class_count_; }
  /// [predicted class]
  std::span<std::int64_t> row(std::size_t label) {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }
  std::span<const std::int64_t> row(std::size_t label) const {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }

  OfClass of_class(std::size_t label) const;
  /// Of all samples: the trace over the sum.
  Accuracy accuracy() const;

 private:
  std::size_t class_count_;
  std::vector<std::int64_t> counts_;  // [true class, predicted class]
};

}  // namespace carillon
