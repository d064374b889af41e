// Metrics of a classification: the predicted class is the index of the largest output, the first one of several.
//
// Targets: int32 [], the true class, 0 .. classes - 1. Score: "accuracy".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/tasks/accuracy.h"
#include "src/tasks/confusion_matrix.h"

namespace carillon {

class AccuracyMetric : public Metric {
 public:
  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  std::string contents() const override;
  void merge(std::string_view contents) override;
  std::vector<Score> scores() const override { return {accuracy_.score()}; }
  std::string text() const override { return accuracy_.text(); }

  const Accuracy& accuracy() const { return accuracy_; }

 private:
  Accuracy accuracy_;
};

/// Counts by class, for a report. Takes 8 bytes for each pair of classes.
class ConfusionMetric : public Metric {
 public:
  explicit ConfusionMetric(std::size_t class_count) : matrix_(class_count) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override;
  std::string contents() const override;
  void merge(std::string_view contents) override;
  std::vector<Score> scores() const override { return {matrix_.accuracy().score()}; }
  std::string text() const override { return matrix_.accuracy().text(); }

  const ConfusionMatrix& matrix() const { return matrix_; }

 private:
  ConfusionMatrix matrix_;
};

}  // namespace carillon
