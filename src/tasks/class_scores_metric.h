// ClassScoresMetric: adds scores that treat all classes alike, and the calibration, to another metric of a
// classification.
//
//   top_5              share of samples for which fewer than 5 classes precede the true one; only with > 5 classes
//   balanced_accuracy  mean over c of correct(c) / support(c);  c: classes with samples
//   macro_f1           mean over c of 2 correct(c) / (support(c) + predicted(c));  c: with samples or predictions
//   calibration_error  sum over bins b of n(b) / n |accuracy(b) - confidence(b)|
//
// A class precedes another one if its output is larger, or equal with a smaller index. The confidence of a sample is
// its largest probability (softmax), and bin b holds the samples with b / 15 < confidence <= (b + 1) / 15. A sum of
// confidences is in fixed point, so no score depends on the order of the samples or on the number of ranks.
//
// Outputs: logits, [samples, classes]. Targets: int32 [], 0 .. classes - 1. Memory: 24 bytes per class.
//
// Sources: scikit-learn, balanced_accuracy_score and f1_score with average="macro"; Guo et al., "On Calibration of
// Modern Neural Networks", 2017.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/tasks/class_counts.h"

namespace carillon {

/// Samples by confidence.
class Calibration {
 public:
  static constexpr std::size_t bin_count = 15;

  /// The samples of a bin.
  struct Bin {
    std::int64_t count = 0, correct = 0;
    std::int64_t confidence = 0;  ///< sum, as a multiple of 2^-30

    double mean_confidence() const;  ///< NaN if there are no samples
    double accuracy() const;         ///< NaN if there are no samples
  };

  /// `confidence`: above 0, at most 1.
  void add(double confidence, bool is_correct);
  const std::array<Bin, bin_count>& bins() const { return bins_; }
  /// NaN if there are no samples.
  double error() const;

 private:
  friend class ClassScoresMetric;
  std::array<Bin, bin_count> bins_{};
};

class ClassScoresMetric : public Metric {
 public:
  /// `other`: not null.
  ClassScoresMetric(std::size_t class_count, std::unique_ptr<Metric> other)
      : other_(std::move(other)), classes_(class_count) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  /// The size is bounded by the number of samples and by the number of classes.
  std::string contents() const override;
  void merge(std::string_view contents) override;
  /// Those of `other`, then those above.
  std::vector<Score> scores() const override;
  std::string text() const override { return other_->text(); }
  /// "top-5 = 0.9984, balanced accuracy = 0.9838, macro F1 = 0.9837, calibration error = 0.0042", then those of `other`
  std::vector<std::string> other_texts() const override;

  const Metric& other() const { return *other_; }
  const Calibration& calibration() const { return calibration_; }
  /// By class.
  const std::vector<ClassCounts>& classes() const { return classes_; }
  /// None with 5 classes or fewer.
  std::optional<double> top_5() const;
  double balanced_accuracy() const;
  double macro_f1() const;

 private:
  std::unique_ptr<Metric> other_;
  std::vector<ClassCounts> classes_;
  std::int64_t samples_ = 0, in_top_5_ = 0;
  Calibration calibration_;
};

}  // namespace carillon
