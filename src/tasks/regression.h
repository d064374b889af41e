// Regression: the task that predicts k numbers for each sample, and its metric.
//
//   target   float32 [k], standardised: (number - mean) / deviation
//   output   k numbers, standardised in the same way
//   loss     squared, absolute or Huber error, mean over batch and numbers (kernels/mean_loss)
//   metric   RegressionMetric, in the unit of the numbers
//   score    r2
#pragma once

#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/tasks/metric.h"
#include "carillon/tasks/task.h"
#include "kernels/mean_loss/mean_loss.h"
#include "src/tasks/predictions.h"

namespace carillon {

struct RegressionSettings {
  std::vector<NumberScale> numbers;  ///< one scale for each number of the target
  MeanLossKind loss = MeanLossKind::squared_error;
  float huber_delta = 1.0f;  ///< huber only: the loss is squared for errors up to this size, in deviations; above 0
};

/// Makes the task. Errors: failed (there are no numbers, or the loss is unknown).
Task regression_task(const RegressionSettings& settings);

/// The results for one number of the target. They are NaN if there are no samples.
struct NumberResult {
  double mae = 0.0, rmse = 0.0, r2 = 0.0;
  double deviation = 0.0;  ///< standard deviation of the true numbers
};

/// The metric of a regression, in the unit of the numbers. e: predicted number - number.
///
///   mae    mean of |e|
///   rmse   sqrt(mean of e^2)
///   r2     1 - sum of e^2 / sum of (number - mean number)^2: 1 is perfect, 0 is as good as always predicting the mean.
///          If all numbers are equal, r2 is 1 if every e is 0, otherwise 0.
///
/// Each score is the mean over the k numbers of a sample, as in scikit-learn. Outputs: standardised numbers, [samples,
/// k]. Targets: float32 [k], standardised.
class RegressionMetric : public Metric {
 public:
  explicit RegressionMetric(std::vector<NumberScale> numbers)
      : numbers_(std::move(numbers)), samples_(numbers_.size(), numbers_.size() * sizeof(float)) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    results_.clear();
    samples_.add(outputs, targets);
  }
  std::string contents() const override { return samples_.contents(); }
  void merge(std::string_view contents) override {
    results_.clear();
    samples_.merge(contents);
  }
  /// The names are "r2", "mae" and "rmse".
  std::vector<Score> scores() const override;
  /// For example "R2 = 0.832 (4952 records)".
  std::string text() const override;
  std::vector<std::string> other_texts() const override;
  /// Columns "r2", "mae" and "rmse".
  ScoreTable table() const override;

  const StoredSamples& samples() const { return samples_; }
  const NumberScale& scale(std::size_t column) const { return numbers_[column]; }
  /// Returns the prediction of number `column` for sample `i`, in the unit of the number.
  double predicted(std::size_t i, std::size_t column) const;
  double target(std::size_t i, std::size_t column) const;
  /// Returns the error of sample `i`, which is the root mean square of e / deviation over the numbers of the sample. If
  /// a deviation is 0, divides by 1 instead.
  double error(std::size_t i) const;
  /// Returns one element for each number of the target.
  const std::vector<NumberResult>& numbers() const;

 private:
  NumberResult result_of(std::size_t column) const;
  NumberResult mean() const;

  std::vector<NumberScale> numbers_;
  StoredSamples samples_;
  mutable std::vector<NumberResult> results_;  ///< the results for `samples_`; empty: not computed yet
};

}  // namespace carillon
