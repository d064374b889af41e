#include "src/tasks/classification_metric.h"

#include <gmock/gmock.h>

#include <cstring>

#include "carillon/core/error.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t classes = 3;

/// Adds samples that a network assigns to the classes `predicted`.
void add(Metric& metric, const std::vector<std::int32_t>& labels, const std::vector<std::size_t>& predicted) {
  std::vector<float> outputs(labels.size() * classes, -1.0f);
  for (std::size_t i = 0; i < labels.size(); ++i) outputs[i * classes + predicted[i]] = -0.5f;
  metric.add(outputs, std::as_bytes(std::span(labels)));
}

std::string contents_of(const std::vector<std::int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t)};
}

/// Two metrics of the same samples.
struct Both {
  AccuracyMetric accuracy;
  ConfusionMetric confusion{classes};
};

TEST(ClassificationMetric, CountsTheSamplesWhoseLargestOutputIsTheTrueClass) {
  Both both;
  for (Metric* const metric : {static_cast<Metric*>(&both.accuracy), static_cast<Metric*>(&both.confusion)}) {
    add(*metric, {0, 1, 2}, {0, 2, 2});
    add(*metric, {}, {});
    add(*metric, {1}, {0});
    EXPECT_EQ(metric->text(), "precision @ 1 = 0.500 (2/4)");
    const Score score = metric->scores().at(0);
    EXPECT_EQ(score.name, "accuracy");
    EXPECT_EQ(score.value, 0.5);
    EXPECT_EQ(score.logged_as(), "precision");
    EXPECT_EQ(score.tagged_as(), "precision @ 1");
    EXPECT_EQ(score.ratio.value().part, 2);
    EXPECT_EQ(score.ratio.value().whole, 4);
  }
  EXPECT_THAT(both.confusion.matrix().row(0), ElementsAre(1, 0, 0));
  EXPECT_THAT(both.confusion.matrix().row(1), ElementsAre(1, 0, 1));
  EXPECT_THAT(both.confusion.matrix().row(2), ElementsAre(0, 0, 1));
}

TEST(ClassificationMetric, OfEqualOutputsTakesTheFirst) {
  AccuracyMetric metric;
  const std::vector<std::int32_t> labels{1, 2};
  metric.add(std::vector<float>{0.0f, 7.0f, 7.0f, 0.0f, 7.0f, 7.0f}, std::as_bytes(std::span(labels)));
  EXPECT_EQ(metric.accuracy().correct, 1);
}

TEST(ClassificationMetric, MergesTheContentsOfRanksToTheCountsOfAllSamples) {
  Both ranks[3], all, merged;
  const std::vector<std::vector<std::int32_t>> labels{{0, 1, 2, 2}, {}, {1, 1}};
  const std::vector<std::vector<std::size_t>> predicted{{0, 2, 2, 0}, {}, {1, 2}};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (Both* const both : {&ranks[rank], &all}) {
      add(both->accuracy, labels[rank], predicted[rank]);
      add(both->confusion, labels[rank], predicted[rank]);
    }
    merged.accuracy.merge(ranks[rank].accuracy.contents());
    merged.confusion.merge(ranks[rank].confusion.contents());
  }
  EXPECT_EQ(merged.accuracy.accuracy().correct, 3);
  EXPECT_EQ(merged.accuracy.accuracy().total, 6);
  EXPECT_EQ(merged.accuracy.contents(), all.accuracy.contents());
  EXPECT_EQ(merged.confusion.contents(), all.confusion.contents());
  EXPECT_THAT(merged.confusion.matrix().row(1), ElementsAre(0, 1, 2));
}

TEST(ClassificationMetric, HasContentsThatGrowWithTheSamplesAndNotWithTheClasses) {
  ConfusionMetric metric(1000);
  std::vector<float> outputs(1000);
  outputs[999] = 1.0f;
  const std::vector<std::int32_t> label{500};
  for (int i = 0; i < 2; ++i) metric.add(outputs, std::as_bytes(std::span(label)));
  EXPECT_EQ(metric.contents(), contents_of({1000, 500, 999, 2}));
}

TEST(ClassificationMetric, RefusesContentsOfAnotherMetricAndStaysUnchanged) {
  Both both;
  add(both.accuracy, {0, 1}, {0, 2});
  add(both.confusion, {0, 1}, {0, 2});
  const std::string accuracy = both.accuracy.contents(), confusion = both.confusion.contents();
  for (const std::string& contents :
       {std::string(), std::string("x"), confusion, accuracy + accuracy, contents_of({-1, 2}), contents_of({3, 2})}) {
    const Error error = error_of([&] { both.accuracy.merge(contents); });
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), HasSubstr("not the contents of an accuracy metric"));
  }
  for (const std::string& contents : {std::string(), accuracy, confusion + "x", ConfusionMetric(classes + 1).contents(),
                                      contents_of({3, 0, 0}), contents_of({3, 0, 3, 1}), contents_of({3, -1, 0, 1}),
                                      contents_of({3, 0, 0, 0}), contents_of({3, 0, 0, 1, 3, 0, 1})}) {
    const Error error = error_of([&] { both.confusion.merge(contents); });
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), HasSubstr("not the contents of a confusion metric"));
  }
  EXPECT_EQ(both.accuracy.contents(), accuracy);
  EXPECT_EQ(both.confusion.contents(), confusion);
}

}  // namespace
}  // namespace carillon::testing
