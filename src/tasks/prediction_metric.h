// PredictionMetric: adds the most probable classes of each sample to another metric of a classification.
//
// Every rank evaluates a contiguous part of the records and the parts are merged in rank order, so sample i of the
// merged metric is record i of the dataset. Outputs: logits, [samples, classes]. Targets: int32 [], 0 .. classes - 1.
// Memory: 64 bytes per sample, and while the parts of the ranks are merged up to three times as much.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "carillon/tasks/metric.h"

namespace carillon {

/// The true class of a sample, and the classes with the largest probabilities (softmax), in descending order.
struct Prediction {
  static constexpr std::size_t max_count = 5;

  std::int32_t label = 0;
  std::array<std::int32_t, max_count> classes{};
  std::array<double, max_count> probabilities{};

  std::int32_t predicted() const { return classes[0]; }
  double confidence() const { return probabilities[0]; }
  bool is_mistake() const { return predicted() != label; }
};

/// The predictions of all samples of an evaluation.
struct Predictions {
  std::size_t class_count = 0;
  std::vector<Prediction> samples = {};

  /// The classes that each prediction has: 5, or all if there are fewer.
  std::size_t top_count() const { return class_count < Prediction::max_count ? class_count : Prediction::max_count; }
};

/// The numbers of up to `count` mistakes with the largest confidence, in descending order. Of equal ones, the first.
std::vector<std::size_t> most_certain_mistakes(std::span<const Prediction> samples, std::size_t count);
/// The numbers of up to `count` samples with the smallest confidence, in ascending order. Of equal ones, the first.
std::vector<std::size_t> least_certain(std::span<const Prediction> samples, std::size_t count);

class PredictionMetric : public Metric {
 public:
  /// `other`: not null.
  PredictionMetric(std::size_t class_count, std::unique_ptr<Metric> other)
      : other_(std::move(other)), predictions_{.class_count = class_count} {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  std::string contents() const override;
  void merge(std::string_view contents) override;
  std::vector<Score> scores() const override { return other_->scores(); }
  std::string text() const override { return other_->text(); }
  std::vector<std::string> other_texts() const override { return other_->other_texts(); }

  const Metric& other() const { return *other_; }
  const Predictions& predictions() const { return predictions_; }

 private:
  std::unique_ptr<Metric> other_;
  Predictions predictions_;
};

}  // namespace carillon
