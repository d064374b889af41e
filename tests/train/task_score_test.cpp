#include "src/train/evaluation/task_score.h"

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

}  // namespace
}  // namespace carillon::testing
