#include "src/tasks/cross_entropy_metric.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "src/tasks/classification_metric.h"
#include "tests/support/failure.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;

CrossEntropyMetric metric() { return CrossEntropyMetric(std::make_unique<AccuracyMetric>()); }

void add(Metric& metric, const std::vector<float>& logits, const std::vector<std::int32_t>& labels) {
  metric.add(logits, std::as_bytes(std::span(labels)));
}

// numpy 2.0, float64:
//   x = np.array([[1, 2, 3], [0.5, -1, 0.25], [100, -100, 0], [-3, -3, -3]], np.float32).astype(np.float64)
//   c = [2, 0, 1, 1]; np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) - (x - x.max(1, keepdims=True))[range(4), c]
const std::vector<float> logits{1, 2, 3, 0.5, -1, 0.25, 100, -100, 0, -3, -3, -3};
const std::vector<std::int32_t> labels{2, 0, 1, 1};
constexpr double mean = 50.5500826098786;

TEST(CrossEntropyMetric, IsTheMeanOfNumpy) {
  CrossEntropyMetric found = metric();
  add(found, logits, labels);
  EXPECT_NEAR(found.loss(), mean, 1e-11);
  const std::vector<Score> scores = found.scores();
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].name, "accuracy");
  EXPECT_EQ(scores[1].logged_as(), "loss");
  EXPECT_EQ(scores[1].tagged_as(), "eval_loss");
  EXPECT_EQ(scores[1].value, found.loss());
  EXPECT_EQ(found.text(), "precision @ 1 = 0.500 (2/4)");
  EXPECT_THAT(found.other_texts(), ElementsAre("cross-entropy = 50.5501"));
}

TEST(CrossEntropyMetric, DoesNotDependOnTheOrderOfSamplesAndRanks) {
  std::vector<float> many;
  std::vector<std::int32_t> classes;
  for (int i = 0; i < 1000; ++i) {
    for (int c = 0; c < 10; ++c) many.push_back(std::sin(static_cast<float>(i * 10 + c)) * static_cast<float>(i % 17));
    classes.push_back(i % 10);
  }
  CrossEntropyMetric all = metric(), merged = metric();
  add(all, many, classes);
  for (const auto& [begin, end] : {std::pair(700, 1000), std::pair(0, 1), std::pair(1, 700)}) {
    CrossEntropyMetric part = metric();
    add(part, {many.begin() + begin * 10, many.begin() + end * 10}, {classes.begin() + begin, classes.begin() + end});
    merged.merge(part.contents());
  }
  EXPECT_EQ(merged.loss(), all.loss());
  EXPECT_EQ(merged.contents(), all.contents());
}

TEST(CrossEntropyMetric, IsFiniteForAllFiniteLogits) {
  constexpr float huge = std::numeric_limits<float>::max();
  CrossEntropyMetric found = metric();
  add(found, {huge, -huge}, {1});
  EXPECT_EQ(found.loss(), std::exp2(40.0));
}

TEST(CrossEntropyMetric, CountsNanAsTheLargestLoss) {
  CrossEntropyMetric found = metric();
  add(found, {std::numeric_limits<float>::quiet_NaN(), 0}, {1});
  EXPECT_EQ(found.loss(), std::exp2(40.0));
}

TEST(CrossEntropyMetric, RefusesOtherContents) {
  CrossEntropyMetric found = metric();
  EXPECT_EQ(failure_of([&] { found.merge("short"); }).code, ExitCode::failed);
  std::string bad = found.contents();
  bad[7] = '\x80';  // a negative sum
  EXPECT_EQ(failure_of([&] { found.merge(bad); }).code, ExitCode::failed);
  EXPECT_EQ(failure_of([&] { found.merge(found.contents() + "x"); }).code, ExitCode::failed);
}

}  // namespace
}  // namespace carillon::testing
