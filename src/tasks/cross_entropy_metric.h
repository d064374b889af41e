// CrossEntropyMetric: adds the mean cross-entropy to another metric of a classification.
//
//   loss of a sample with logits x and class c:  log(sum_i exp(x_i)) - x_c,  in float64, without label smoothing
//
// Outputs: logits, [samples, classes]. Targets: int32 [], 0 .. classes - 1. The sum is in fixed point, so the mean does
// not depend on the order of the samples or on the number of ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "carillon/tasks/metric.h"

namespace carillon {

/// Mean of numbers that are not negative. Exact to 2^-40; numbers above 2^40, and NaN, count as 2^40.
class FixedPointMean {
 public:
  void add(double number);
  void add(const FixedPointMean& other);
  std::int64_t count() const { return count_; }
  /// NaN if there are no numbers.
  double value() const;

 private:
  friend class CrossEntropyMetric;
  void carry();

  std::int64_t whole_ = 0, fraction_ = 0;  ///< sum = whole + fraction / 2^40, 0 <= fraction < 2^40
  std::int64_t count_ = 0;
};

class CrossEntropyMetric : public Metric {
 public:
  /// `counts`: not null.
  explicit CrossEntropyMetric(std::unique_ptr<Metric> counts) : counts_(std::move(counts)) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  std::string contents() const override;
  void merge(std::string_view contents) override;
  /// Those of `counts`, then "cross_entropy", which logs name "loss".
  std::vector<Score> scores() const override;
  std::string text() const override { return counts_->text(); }
  /// "cross-entropy = 0.0514"
  std::vector<std::string> other_texts() const override;

  const Metric& counts() const { return *counts_; }
  double loss() const { return mean_.value(); }

 private:
  std::unique_ptr<Metric> counts_;
  FixedPointMean mean_;
};

}  // namespace carillon
