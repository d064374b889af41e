// Labels and counts of a classification: ClassCounts (one class against all others), ConfusionMatrix, Accuracy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/tasks/metric.h"

namespace carillon {

/// The number of labels in `targets`: int32, 0 .. classes - 1.
inline std::size_t label_count(std::span<const std::byte> targets) { return targets.size() / sizeof(std::int32_t); }

/// Label `i` of `targets`.
inline std::size_t label_at(std::span<const std::byte> targets, std::size_t i) {
  std::int32_t label = 0;
  std::memcpy(&label, targets.data() + i * sizeof label, sizeof label);
  return static_cast<std::size_t>(label);
}

/// Counts of the samples of one class or label.
///   precision = correct / predicted    recall = correct / support    F1 = 2 correct / (support + predicted)
struct ClassCounts {
  std::int64_t support = 0;    ///< samples of the class
  std::int64_t predicted = 0;  ///< samples that are predicted as the class
  std::int64_t correct = 0;    ///< samples that are both

  // Each returns nullopt for 0 / 0.
  std::optional<double> precision() const { return ratio(correct, predicted); }
  std::optional<double> recall() const { return ratio(correct, support); }
  std::optional<double> f1() const { return ratio(2 * correct, support + predicted); }
  std::int64_t mistakes() const { return support - correct; }

 private:
  static std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(whole)) : std::nullopt;
  }
};

/// Counts the samples for which the largest output is the true class.
struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t total = 0;

  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// metrics.jsonl uses the name "precision" and TensorBoard "precision @ 1", as TensorFlow's tutorials do.
  Score score() const;
  /// "precision @ 1 = 0.984 (9840/10000)"
  std::string text() const;
};

/// Counts samples by true class and predicted class. Memory: 8 bytes per pair of classes.
///
///   m(t, p): samples of class t with the predicted class p, each 0 .. n - 1. For a class c:
///     support(c) = sum_p m(c, p)       precision(c) = m(c, c) / predicted(c)
///     predicted(c) = sum_t m(t, c)     recall(c) = m(c, c) / support(c)
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::size_t class_count)
      : class_count_(class_count), counts_(class_count * class_count, 0) {}

  std::size_t class_count() const { return class_count_; }
  /// [predicted class] The numbers of samples with the true class `label`.
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
  std::vector<std::int64_t> counts_;  ///< [true class, predicted class]
};

}  // namespace carillon
