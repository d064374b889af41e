// ClassificationMetric: the scores of a classification, and optionally its confusion matrix and all predictions. The
// file first defines the counts that the metric uses: ClassCounts (of one class against all other classes), Accuracy
// and ConfusionMatrix.
//
//   accuracy           share of samples for which no class precedes the true class
//   cross_entropy      mean of log(sum_i exp(x_i)) - x_c over samples with logits x and class c, no label smoothing
//   top_5              share of samples for which fewer than 5 classes precede the true class; only with > 5 classes
//   balanced_accuracy  mean over c of correct(c) / support(c);  c: classes with samples
//   macro_f1           mean over c of 2 correct(c) / (support(c) + predicted(c));  c: with samples or predictions
//   calibration_error  sum over bins b of n(b) / n |accuracy(b) - confidence(b)|
//
// A class precedes another class if its output is larger. If both outputs are equal, the class with the smaller index
// precedes. The confidence of a sample is its largest probability (softmax). Bin b holds the samples with b / 15 <
// confidence <= (b + 1) / 15. The sums of losses and confidences are in fixed point, because such sums do not depend on
// the order of the numbers. Therefore all scores are the same for any order of the samples and any number of ranks.
//
// Outputs: logits, [samples, classes]. Targets: int32 [], 0 .. classes - 1. Memory: 24 bytes per class.
//
// Sources: scikit-learn, balanced_accuracy_score and f1_score with average="macro"; Guo et al., "On Calibration of
// Modern Neural Networks", 2017.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/tasks/predictions.h"

namespace carillon {

/// Returns the number of labels in `targets`. A label is int32, 0 .. classes - 1.
inline std::size_t label_count(std::span<const std::byte> targets) { return targets.size() / sizeof(std::int32_t); }

/// Returns label `i` of `targets`.
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
  std::int64_t correct = 0;    ///< samples of the class that are predicted as the class

  // Each of these functions returns nullopt if its formula is 0 / 0.
  std::optional<double> precision() const { return ratio(correct, predicted); }
  std::optional<double> recall() const { return ratio(correct, support); }
  std::optional<double> f1() const { return ratio(2 * correct, support + predicted); }
  std::int64_t mistakes() const { return support - correct; }

 private:
  static std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(whole)) : std::nullopt;
  }
};

/// Counts the samples for which the class with the largest output is the true class.
struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t total = 0;

  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// The name of the score is "precision" in metrics.jsonl and "precision @ 1" in TensorBoard, as in TensorFlow's
  /// tutorials.
  Score score() const;
  /// For example "precision @ 1 = 0.984 (9840/10000)".
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
  /// Returns the numbers of samples with the true class `label`, by predicted class.
  std::span<std::int64_t> row(std::size_t label) {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }
  std::span<const std::int64_t> row(std::size_t label) const {
    return std::span(counts_).subspan(label * class_count_, class_count_);
  }

  ClassCounts of_class(std::size_t label) const;
  /// Returns the accuracy over all samples, which is the trace divided by the sum.
  Accuracy accuracy() const;

 private:
  std::size_t class_count_;
  std::vector<std::int64_t> counts_;  ///< [true class, predicted class]
};

/// Counts samples by their confidence, in bins.
class Calibration {
 public:
  static constexpr std::size_t bin_count = 15;

  /// The counts of the samples in a bin.
  struct Bin {
    std::int64_t count = 0, correct = 0;
    std::int64_t confidence = 0;  ///< sum of the confidences, in units of 2^-30

    double mean_confidence() const;  ///< NaN if there are no samples
    double accuracy() const;         ///< NaN if there are no samples
  };

  /// Counts a sample in the bin of its confidence. `confidence`: above 0, at most 1.
  void add(double confidence, bool is_correct);
  void add(const std::array<Bin, bin_count>& bins);
  const std::array<Bin, bin_count>& bins() const { return bins_; }
  /// NaN if there are no samples.
  double error() const;

 private:
  std::array<Bin, bin_count> bins_{};
};

/// A sum of non-negative numbers in fixed point, in units of 2^-40. Numbers above 2^40, and NaN, count as 2^40.
struct FixedPointSum {
  static constexpr std::int64_t one = std::int64_t{1} << 40;  ///< the number 1 in units of `fraction`

  std::int64_t whole = 0, fraction = 0;  ///< sum = whole + fraction / 2^40, 0 <= fraction < 2^40

  void add(double number);
  void add(const FixedPointSum& other);
  double value() const;
};

/// The data that a ClassificationMetric stores for reports, in addition to the scores.
struct ClassificationDetails {
  bool has_confusion_matrix = false;  ///< needs 8 bytes per pair of classes
  bool has_predictions = false;       ///< needs 64 bytes per sample; three times as many bytes while the samples of all
                                      ///< ranks are merged
};

class ClassificationMetric : public Metric {
 public:
  explicit ClassificationMetric(std::size_t class_count, const ClassificationDetails& details = {});

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  /// The result contains only the classes and pairs of classes that occur. Therefore it is small if there are few
  /// samples.
  std::string contents() const override;
  void merge(std::string_view contents) override;
  /// Returns the scores, in the order of the list in the file's opening comment. Logs name the cross-entropy "loss".
  std::vector<Score> scores() const override;
  std::string text() const override { return accuracy().text(); }
  /// For example "top-5 = 0.9984, balanced accuracy = 0.9838, macro F1 = 0.9837, calibration error = 0.0042" and
  /// "cross-entropy = 0.0514"
  std::vector<std::string> other_texts() const override;

  Accuracy accuracy() const;
  /// Returns the mean cross-entropy.
  double loss() const { return loss_sum_.value() / static_cast<double>(samples_); }
  /// Returns the top-5 accuracy, or nullopt if there are 5 classes or fewer.
  std::optional<double> top_5() const;
  double balanced_accuracy() const;
  double macro_f1() const;
  /// Returns one element for each class.
  const std::vector<ClassCounts>& classes() const { return classes_; }
  const Calibration& calibration() const { return calibration_; }
  /// Requires ClassificationDetails::has_confusion_matrix.
  const ConfusionMatrix& confusion_matrix() const;
  /// Requires ClassificationDetails::has_predictions. Every rank evaluates a contiguous part of the records, and every
  /// rank merges the parts in rank order. Therefore sample i of the merged metric is record i of the dataset.
  const Predictions& predictions() const;

 private:
  std::vector<ClassCounts> classes_;
  std::int64_t samples_ = 0, in_top_5_ = 0;
  FixedPointSum loss_sum_;
  Calibration calibration_;
  std::optional<ConfusionMatrix> confusion_matrix_;
  std::optional<Predictions> predictions_;
};

}  // namespace carillon
