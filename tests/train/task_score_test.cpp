#include "src/train/evaluation/evaluator.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/io_fixtures.h"
#include "tests/support/metrics.h"

namespace carillon::testing {
namespace {

Score value(double of) { return {.name = "error", .value = of}; }

TEST(TaskScore, IsFoundByItsNameAmongTheScores) {
  const TaskScore score(error_task());
  EXPECT_EQ(score.of(ErrorMetric(0.25)).value, 0.25);
  EXPECT_EQ(score.form().name, "error");
  Task task = error_task();
  task.score = "accuracy";
  const Error error = error_of([&] { static_cast<void>(TaskScore(task)); });
  EXPECT_EQ(error.code(), ExitCode::failed);
  EXPECT_STREQ(error.what(), "the task's metric has no score 'accuracy'");
}

TEST(TaskScore, ComparesAsTheTaskSays) {
  const TaskScore accuracy(accuracy_task()), error(error_task());
  EXPECT_TRUE(accuracy.is_better(value(0.9), value(0.8)));
  EXPECT_FALSE(accuracy.is_better(value(0.8), value(0.9)));
  EXPECT_TRUE(error.is_better(value(0.8), value(0.9)));
  EXPECT_FALSE(error.is_better(value(0.9), value(0.8)));
  for (const TaskScore* const score : {&accuracy, &error}) {
    EXPECT_FALSE(score->is_better(value(0.5), value(0.5)));
    const Score nan = value(std::numeric_limits<double>::quiet_NaN());
    EXPECT_FALSE(score->is_better(nan, value(0.5)));
    EXPECT_TRUE(score->is_better(value(0.5), nan));
    EXPECT_FALSE(score->is_better(nan, nan));
  }
}

TEST(TaskScore, ReachesATargetWithTheTargetItself) {
  const TaskScore accuracy(accuracy_task(), 0.5), error(error_task(), 0.5);
  EXPECT_TRUE(accuracy.reaches_target(value(0.5)));
  EXPECT_TRUE(accuracy.reaches_target(value(0.6)));
  EXPECT_FALSE(accuracy.reaches_target(value(0.4)));
  EXPECT_TRUE(error.reaches_target(value(0.5)));
  EXPECT_TRUE(error.reaches_target(value(0.4)));
  EXPECT_FALSE(error.reaches_target(value(0.6)));
}

TEST(TaskScore, ReachesATargetOutsideTheRangeOfAnAccuracy) {
  const TaskScore none_wrong(error_task(), 0.0), ratio(accuracy_task(), 3.0);
  EXPECT_TRUE(none_wrong.reaches_target(value(0.0)));
  EXPECT_FALSE(none_wrong.reaches_target(value(0.1)));
  EXPECT_TRUE(ratio.reaches_target(value(3.5)));
  EXPECT_FALSE(ratio.reaches_target(value(2.5)));
}

TEST(TaskScore, ReachesNothingWithoutATarget) {
  for (const TaskScore& score : {TaskScore(accuracy_task()), TaskScore(error_task())}) {
    EXPECT_FALSE(score.has_target());
    for (const double found : {0.0, 0.5, 1.0}) EXPECT_FALSE(score.reaches_target(value(found)));
  }
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Adds the scores `values`, which belong to the steps 10, 20, ... For each value, returns the step of the best score
/// after this value was added, or 0 if there is none.
std::vector<std::int64_t> best_after_each(Patience& patience, const std::vector<double>& values) {
  std::vector<std::int64_t> steps;
  for (const double value : values) {
    patience.add({static_cast<std::int64_t>(10 * (steps.size() + 1)), {.name = "score", .value = value}});
    steps.push_back(patience.best() ? patience.best()->step : 0);
  }
  return steps;
}

TEST(Patience, CountsTheEvaluationsSinceTheBest) {
  const TaskScore accuracy(accuracy_task()), error(error_task());
  Patience rising(accuracy, 3), falling(error, 3);
  const std::vector<double> scores{0.5, 0.4, 0.5, 0.6, 0.1, 0.6, 0.59};
  EXPECT_EQ(best_after_each(rising, scores), (std::vector<std::int64_t>{10, 10, 10, 40, 40, 40, 40}));
  EXPECT_TRUE(rising.is_over());
  EXPECT_EQ(rising.best()->score.value, 0.6);
  EXPECT_EQ(best_after_each(falling, scores), (std::vector<std::int64_t>{10, 20, 20, 20, 50, 50, 50}));
  EXPECT_FALSE(falling.is_over());
}

TEST(Patience, TakesNanAsNoImprovement) {
  const TaskScore accuracy(accuracy_task());
  Patience patience(accuracy, 4);
  EXPECT_EQ(best_after_each(patience, {nan, nan, 0.1, nan, nan, 0.1}),
            (std::vector<std::int64_t>{0, 0, 30, 30, 30, 30}));
  EXPECT_FALSE(patience.is_over());
  best_after_each(patience, {nan});
  EXPECT_TRUE(patience.is_over());
  Patience without_score(accuracy, 2);
  best_after_each(without_score, {nan, nan});
  EXPECT_TRUE(without_score.is_over());
  EXPECT_FALSE(without_score.best().has_value());
}

TEST(Patience, OfZeroIsNeverOver) {
  const TaskScore accuracy(accuracy_task());
  Patience patience(accuracy, 0);
  best_after_each(patience, std::vector<double>(100, 0.5));
  EXPECT_FALSE(patience.is_over());
}

}  // namespace
}  // namespace carillon::testing
