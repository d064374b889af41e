#include "src/tasks/prediction_metric.h"

#include <gmock/gmock.h>

#include <cmath>

#include "src/tasks/classification_metric.h"
#include "tests/support/failure.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PredictionMetric metric(std::size_t classes) { return {classes, std::make_unique<AccuracyMetric>()}; }

void add(Metric& metric, const std::vector<float>& logits, const std::vector<std::int32_t>& labels) {
  metric.add(logits, std::as_bytes(std::span(labels)));
}

Prediction prediction(std::int32_t label, std::int32_t predicted, double confidence) {
  Prediction made{.label = label};
  made.classes[0] = predicted;
  made.probabilities[0] = confidence;
  return made;
}

TEST(PredictionMetric, HoldsTheFiveMostProbableClassesOfEachSample) {
  PredictionMetric found = metric(7);
  add(found, {0, 3, 1, 3, 2, -1, 5}, {2});
  ASSERT_EQ(found.predictions().samples.size(), 1u);
  const Prediction& sample = found.predictions().samples[0];
  EXPECT_EQ(sample.label, 2);
  EXPECT_THAT(sample.classes, ElementsAre(6, 1, 3, 4, 2));
  double sum = 0.0;
  for (const double logit : {0.0, 3.0, 1.0, 3.0, 2.0, -1.0, 5.0}) sum += std::exp(logit);
  const double top[] = {5, 3, 3, 2, 1};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(sample.probabilities[i], std::exp(top[i]) / sum, 1e-15);
  EXPECT_TRUE(sample.is_mistake());
  EXPECT_EQ(found.text(), "precision @ 1 = 0.000 (0/1)");
}

TEST(PredictionMetric, HoldsAllClassesIfThereAreFewer) {
  PredictionMetric found = metric(2);
  add(found, {0, 0}, {0});
  EXPECT_EQ(found.predictions().top_count(), 2u);
  EXPECT_THAT(found.predictions().samples[0].classes, ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(found.predictions().samples[0].probabilities, ElementsAre(0.5, 0.5, 0.0, 0.0, 0.0));
}

TEST(PredictionMetric, MergesTheSamplesOfRanksInTheirOrder) {
  PredictionMetric merged = metric(2), all = metric(2);
  for (const std::vector<std::int32_t>& labels : {std::vector<std::int32_t>{0, 1}, {}, {1}}) {
    PredictionMetric rank = metric(2);
    for (const std::int32_t label : labels) {
      for (PredictionMetric* const each : {&rank, &all}) add(*each, {1, 2.0f * static_cast<float>(label)}, {label});
    }
    merged.merge(rank.contents());
  }
  EXPECT_EQ(merged.contents(), all.contents());
  EXPECT_EQ(merged.predictions().samples.size(), 3u);
}

TEST(PredictionMetric, RefusesOtherContents) {
  PredictionMetric found = metric(3);
  add(found, {1, 2, 3}, {2});
  const std::string contents = found.contents();
  std::string no_class = contents, no_probability = contents, too_many = contents;
  no_class[8] = 3;
  no_probability[8 + 24 + 7] = '\x7F';
  too_many[0] = 2;
  for (const std::string& bad : {std::string(), std::string("short"), no_class, no_probability, too_many,
                                 contents.substr(0, contents.size() - 1)}) {
    EXPECT_EQ(failure_of([&] { found.merge(bad); }).code, ExitCode::failed);
  }
  EXPECT_EQ(found.contents(), contents);
}

TEST(Predictions, AreOrderedByConfidence) {
  const std::vector<Prediction> samples{prediction(0, 1, 0.8), prediction(0, 0, 0.9), prediction(1, 0, 0.95),
                                        prediction(1, 0, 0.8), prediction(1, 1, 0.4)};
  EXPECT_THAT(most_certain_mistakes(samples, 9), ElementsAre(2, 0, 3));
  EXPECT_THAT(most_certain_mistakes(samples, 2), ElementsAre(2, 0));
  EXPECT_THAT(least_certain(samples, 3), ElementsAre(4, 0, 3));
  EXPECT_THAT(most_certain_mistakes({}, 3), IsEmpty());
}

}  // namespace
}  // namespace carillon::testing
