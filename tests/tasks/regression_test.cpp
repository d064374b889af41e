#include "src/tasks/regression.h"

#include <cmath>

#include "carillon/core/error.h"
#include "tests/tasks/metric_sample.h"

namespace carillon::testing {
namespace {

const std::vector<NumberScale> scales{{40.0, 12.5}, {-3.0, 0.25}, {1.0e6, 3.0e5}};

const MetricSample<float>& sample() {
  static const MetricSample<float> read("regression_metrics.txt");
  return read;
}

TEST(RegressionMetric, ScoresAreScikitLearnsInTheUnitOfTheNumbers) {
  RegressionMetric metric(scales);
  sample().add_to(metric, 0, sample().samples);
  EXPECT_EQ(scores_by_name(metric).size(), 3u);
  for (const auto& [name, value] : scores_by_name(metric)) {
    const double expected = sample().scores.at(name);
    EXPECT_NEAR(value, expected, 1e-9 * std::abs(expected)) << name;
  }
}

TEST(RegressionMetric, EveryNumberOfRanksGivesEqualBits) {
  const MakeMetric make = regression_task({.numbers = scales}).make_metric;
  const auto one = make();
  merge_of_ranks(sample(), 1, make, *one);
  for (const std::size_t ranks : {2, 3, 4}) {
    const auto several = make();
    merge_of_ranks(sample(), ranks, make, *several);
    EXPECT_EQ(scores_by_name(*several), scores_by_name(*one)) << ranks;
  }
}

TEST(RegressionMetric, AnErrorIsTheRootMeanSquareInDeviationsOfTheTrueNumbers) {
  RegressionMetric metric({{.mean = 5.0, .deviation = 10.0}, {}});
  const std::vector<float> outputs{1.5f, 7.0f, -1.0f, 6.0f}, targets{1.0f, 6.0f, -1.0f, 6.0f};
  metric.add(outputs, std::as_bytes(std::span(targets)));
  EXPECT_EQ(metric.error(0), std::sqrt((0.5 * 0.5 + 1.0 * 1.0) / 2.0)) << "the second number has no spread";
  EXPECT_EQ(metric.error(1), 0.0);
}

TEST(RegressionMetric, EqualNumbersHaveNoSpreadDespiteTheRoundingOfTheirMean) {
  RegressionMetric metric({{0.1, 0.7}});
  const std::vector<float> outputs(10, 0.25f), targets(10, 0.1f);
  metric.add(outputs, std::as_bytes(std::span(targets)));
  EXPECT_EQ(scores_by_name(metric).at("r2"), 0.0);
}

TEST(RegressionMetric, WithoutSamplesItHasAllNames) {
  const auto scores = scores_by_name(RegressionMetric(scales));
  EXPECT_EQ(scores.size(), 3u);
  EXPECT_TRUE(std::isnan(scores.at("r2")));
}

TEST(RegressionMetric, ContentsOfAnotherMetricAreRefused) {
  RegressionMetric metric(scales);
  EXPECT_THROW(metric.merge("12345"), Error);
}

TEST(RegressionTask, ATargetIsDescribedInItsUnit) {
  const std::vector<float> target{1.0f, -2.0f, 0.0f};
  EXPECT_EQ(regression_task({.numbers = scales}).describe_target(std::as_bytes(std::span(target))),
            "target 52.5, -3.5, 1e+06");
}

}  // namespace
}  // namespace carillon::testing
