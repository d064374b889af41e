// The outputs and targets in a sample file, and the scores that scikit-learn computed from them
// (tests/data/samples/make_task_metrics.py).
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "carillon/tasks/metric.h"

namespace carillon::testing {

/// The content of a sample file. T: element type of the targets.
template <typename T>
struct MetricSample {
  std::size_t samples = 0, columns = 0;
  std::vector<float> outputs;
  std::vector<T> targets;
  std::map<std::string, double> scores;

  explicit MetricSample(const std::string& file) {
    std::ifstream in(std::filesystem::path(CARILLON_TEST_SAMPLES) / file);
    in >> samples >> columns;
    double value = 0.0;
    for (std::size_t i = 0; i < samples * columns && in >> value; ++i) outputs.push_back(static_cast<float>(value));
    for (std::size_t i = 0; i < samples * columns && in >> value; ++i) targets.push_back(static_cast<T>(value));
    std::string name;
    while (in >> name >> value) scores[name] = value;
    EXPECT_TRUE(samples > 0 && targets.size() == samples * columns && !scores.empty()) << file;
  }

  /// Adds the samples begin, begin + 1, ..., end - 1 to `metric`.
  void add_to(Metric& metric, std::size_t begin, std::size_t end) const {
    const std::size_t first = begin * columns, count = (end - begin) * columns;
    metric.add(std::span(outputs).subspan(first, count), std::as_bytes(std::span(targets).subspan(first, count)));
  }
};

/// Divides the samples among ranks, as an evaluation does. Merges the metrics of all ranks into `all`, in rank order.
template <typename T>
void merge_of_ranks(const MetricSample<T>& sample, std::size_t ranks, const MakeMetric& make, Metric& all) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto part = make();
    const std::size_t begin = sample.samples * rank / ranks, end = sample.samples * (rank + 1) / ranks;
    const std::size_t middle = (begin + end) / 2;
    sample.add_to(*part, begin, middle);
    sample.add_to(*part, middle, end);
    all.merge(part->contents());
  }
}

inline std::map<std::string, double> scores_by_name(const Metric& metric) {
  std::map<std::string, double> scores;
  for (const Score& score : metric.scores()) scores[score.name] = score.value;
  return scores;
}

}  // namespace carillon::testing
