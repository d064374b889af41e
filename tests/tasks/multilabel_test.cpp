#include "src/tasks/multilabel.h"

#include <cmath>

#include "carillon/core/error.h"
#include "tests/tasks/metric_sample.h"

namespace carillon::testing {
namespace {

const MetricSample<std::uint8_t>& sample() {
  static const MetricSample<std::uint8_t> read("multilabel_metrics.txt");
  return read;
}

TEST(MultilabelMetric, ScoresAreScikitLearns) {
  MultilabelMetric metric(sample().columns);
  sample().add_to(metric, 0, sample().samples);
  EXPECT_EQ(scores_by_name(metric).size(), 4u);
  for (const auto& [name, value] : scores_by_name(metric)) {
    EXPECT_NEAR(value, sample().scores.at(name), 1e-12) << name;
  }
}

TEST(MultilabelMetric, TheBestThresholdOfALabelIsThatOfItsPrecisionRecallCurve) {
  MultilabelMetric metric(sample().columns);
  sample().add_to(metric, 0, sample().samples);
  const LabelResult& label = metric.labels()[0];
  EXPECT_NEAR(label.best_f1, sample().scores.at("best_f1_of_label_0"), 1e-12);
  EXPECT_NEAR(label.best_threshold, sample().scores.at("best_threshold_of_label_0"), 1e-12);
}

TEST(MultilabelMetric, EveryNumberOfRanksGivesEqualBits) {
  const MakeMetric make = multilabel_task(static_cast<std::int64_t>(sample().columns)).make_metric;
  const auto one = make();
  merge_of_ranks(sample(), 1, make, *one);
  for (const std::size_t ranks : {2, 3, 4}) {
    const auto several = make();
    merge_of_ranks(sample(), ranks, make, *several);
    EXPECT_EQ(scores_by_name(*several), scores_by_name(*one)) << ranks;
  }
}

TEST(MultilabelMetric, ALabelThatNeverAppliesHasNoAveragePrecision) {
  MultilabelMetric metric(sample().columns);
  sample().add_to(metric, 0, sample().samples);
  EXPECT_FALSE(metric.labels()[3].average_precision.has_value());
  EXPECT_EQ(metric.labels()[2].average_precision, 1.0);
}

TEST(MultilabelMetric, WithoutSamplesItHasAllNames) {
  const MultilabelMetric metric(2);
  const auto scores = scores_by_name(metric);
  EXPECT_EQ(scores.size(), 4u);
  EXPECT_TRUE(std::isnan(scores.at("mean_average_precision")));
}

TEST(MultilabelMetric, ScoresFollowSamplesThatAreAddedLater) {
  MultilabelMetric metric(1);
  const std::vector<float> logits{1.0f, -1.0f};
  const std::vector<std::uint8_t> right{1, 0}, wrong{0, 1};
  metric.add(logits, std::as_bytes(std::span(right)));
  EXPECT_EQ(scores_by_name(metric).at("macro_f1"), 1.0);
  metric.add(logits, std::as_bytes(std::span(wrong)));
  EXPECT_EQ(scores_by_name(metric).at("macro_f1"), 0.5);
}

TEST(MultilabelMetric, TheCrossEntropiesOfSamplesHaveTheMeanThatIsAScore) {
  MultilabelMetric metric(sample().columns);
  sample().add_to(metric, 0, sample().samples);
  double sum = 0.0;
  for (std::size_t i = 0; i < sample().samples; ++i) sum += metric.cross_entropy(i);
  EXPECT_NEAR(sum / static_cast<double>(sample().samples), scores_by_name(metric).at("binary_cross_entropy"), 1e-12);
}

TEST(MultilabelMetric, ALabelIsPredictedFromProbabilityOneHalfOn) {
  MultilabelMetric metric(1);
  const std::vector<float> logits{0.0f, -1e-6f};
  const std::vector<std::uint8_t> targets{1, 1};
  metric.add(logits, std::as_bytes(std::span(targets)));
  EXPECT_EQ(metric.labels()[0].counts.predicted, 1);
}

TEST(MultilabelMetric, ContentsOfAnotherMetricAreRefused) {
  MultilabelMetric metric(2);
  EXPECT_THROW(metric.merge("12345"), Error);
}

TEST(MultilabelMetric, TextNamesTheScore) {
  MultilabelMetric metric(1);
  const std::vector<float> logits{1.0f, -1.0f};
  const std::vector<std::uint8_t> targets{1, 0};
  metric.add(logits, std::as_bytes(std::span(targets)));
  EXPECT_EQ(metric.text(), "mean average precision = 1.0000 (1 labels, 2 records)");
}

}  // namespace
}  // namespace carillon::testing
