#include "src/train/evaluation/patience.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/metrics.h"

namespace carillon::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The counts since the best after each of these scores, at steps 10, 20, ...
std::vector<std::int64_t> counts_after(Patience& patience, const std::vector<double>& values) {
  std::vector<std::int64_t> counts;
  for (const double value : values) {
    patience.add({static_cast<std::int64_t>(10 * (counts.size() + 1)), {.name = "score", .value = value}});
    counts.push_back(patience.since_best());
  }
  return counts;
}

TEST(Patience, CountsTheEvaluationsSinceTheBest) {
  const TaskScore accuracy(accuracy_task()), error(error_task());
  Patience rising(accuracy, 3), falling(error, 3);
  const std::vector<double> scores{0.5, 0.4, 0.5, 0.6, 0.1, 0.6, 0.59};
  EXPECT_EQ(counts_after(rising, scores), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 3}));
  EXPECT_TRUE(rising.is_over());
  EXPECT_EQ(rising.best()->step, 40);
  EXPECT_EQ(rising.best()->score.value, 0.6);
  EXPECT_EQ(counts_after(falling, scores), (std::vector<std::int64_t>{0, 0, 1, 2, 0, 1, 2}));
  EXPECT_FALSE(falling.is_over());
}

TEST(Patience, TakesNanAsNoImprovement) {
  const TaskScore accuracy(accuracy_task());
  Patience patience(accuracy, 4);
  EXPECT_EQ(counts_after(patience, {nan, nan, 0.1, nan, nan, 0.1}), (std::vector<std::int64_t>{1, 2, 0, 1, 2, 3}));
  EXPECT_EQ(patience.best()->step, 30);
  Patience without_score(accuracy, 2);
  counts_after(without_score, {nan, nan});
  EXPECT_TRUE(without_score.is_over());
  EXPECT_FALSE(without_score.best().has_value());
}

TEST(Patience, OfZeroIsNeverOver) {
  const TaskScore accuracy(accuracy_task());
  Patience patience(accuracy, 0);
  counts_after(patience, std::vector<double>(100, 0.5));
  EXPECT_FALSE(patience.is_over());
}

}  // namespace
}  // namespace carillon::testing
