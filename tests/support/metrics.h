// Metrics and tasks for tests that evaluate, log or compare scores.
#pragma once

#include <array>
#include <cmath>
#include <cstring>

#include "carillon/core/error.h"
#include "carillon/tasks/task.h"
#include "src/tasks/classification_metric.h"

namespace carillon::testing {

/// A metric whose only score is a fixed accuracy. It cannot evaluate samples.
class AccuracyMetric : public Metric {
 public:
  explicit AccuracyMetric(const Accuracy& accuracy = {}) : accuracy_(accuracy) {}

  void add(std::span<const float> /*outputs*/, std::span<const std::byte> /*targets*/) override { check(false, "add"); }
  std::string contents() const override { return fmt::format("{} {}", accuracy_.correct, accuracy_.total); }
  void merge(std::string_view /*contents*/) override { check(false, "merge"); }
  std::vector<Score> scores() const override { return {accuracy_.score()}; }
  std::string text() const override { return accuracy_.text(); }

 private:
  Accuracy accuracy_;
};

inline AccuracyMetric accuracy_of(std::int64_t correct, std::int64_t total) {
  return AccuracyMetric({.correct = correct, .total = total});
}

/// A metric whose only score is the mean of |first output - target| over the samples. In contrast to the accuracy, a
/// lower score is better, and the score is not a ratio of counts. Targets: int32 [].
class ErrorMetric : public Metric {
 public:
  ErrorMetric() = default;
  /// Makes the metric of one sample with the error `error`.
  explicit ErrorMetric(double error) : sums_{error, 1.0} {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    const std::size_t samples = targets.size() / sizeof(std::int32_t);
    for (std::size_t i = 0; i < samples; ++i) {
      std::int32_t target = 0;
      std::memcpy(&target, targets.data() + i * sizeof target, sizeof target);
      sums_[0] += std::abs(static_cast<double>(outputs[i * (outputs.size() / samples)]) - target);
      sums_[1] += 1.0;
    }
  }
  std::string contents() const override { return {reinterpret_cast<const char*>(sums_.data()), sizeof sums_}; }
  void merge(std::string_view contents) override {
    std::array<double, 2> others{};
    check(contents.size() == sizeof others, "contents of an error metric");
    std::memcpy(others.data(), contents.data(), sizeof others);
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += others[i];
  }
  std::vector<Score> scores() const override {
    return {{.name = "samples", .value = sums_[1]}, {.name = "error", .value = sums_[0] / sums_[1]}};
  }
  std::string text() const override { return fmt::format("error = {:.3f}", sums_[0] / sums_[1]); }

 private:
  std::array<double, 2> sums_{};  // sum of the errors, and number of samples
};

inline Task accuracy_task() {
  return {.target = {},
          .loss = {},
          .loss_name = "cross_entropy",
          .make_metric = [] { return std::make_unique<AccuracyMetric>(); },
          .score = "accuracy"};
}
inline Task error_task() {
  return {.target = {},
          .loss = {},
          .loss_name = "absolute_error",
          .make_metric = [] { return std::make_unique<ErrorMetric>(); },
          .score = "error",
          .higher_is_better = false};
}

}  // namespace carillon::testing
