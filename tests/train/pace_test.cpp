#include "src/train/loop/pace.h"

#include <gtest/gtest.h>

#include "carillon/core/file.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(StepsWithin, LeavesTimeForTheEvaluations) {
  EXPECT_EQ(steps_within(32.0, {.step = 0.125, .evaluation = 2.0, .eval_every = 16}), 120);
  EXPECT_EQ(steps_within(32.0, {.step = 0.125}), 256);
  EXPECT_EQ(steps_within(-1.0, {.step = 0.125}), 1);
}

TEST(Pace, FollowsTheStepsUntilItIsPlanned) {
  const Pace pace(1000, 0, std::nullopt);
  for (const std::int64_t step : {0, 1, 500, 999}) EXPECT_EQ(pace.schedule_step(step), step);
}

TEST(Pace, MovesThroughTheWholeScheduleInTheStepsThatAreLeft) {
  Pace pace(1000, 0, std::nullopt);
  pace.replan(4, 96, 1.0);
  EXPECT_EQ(pace.point().last_step, 100);
  EXPECT_EQ(pace.schedule_step(4), 4);
  EXPECT_EQ(pace.schedule_step(52), 502);
  EXPECT_EQ(pace.schedule_step(99), 990);
  pace.replan(52, 8, 2.0);
  EXPECT_EQ(pace.point().last_step, 60);
  EXPECT_EQ(pace.schedule_step(52), 502);
  EXPECT_EQ(pace.schedule_step(56), 751);
}

TEST(Pace, EndsAtTheLengthOfTheScheduleAtTheLatest) {
  Pace pace(1000, 0, std::nullopt);
  pace.replan(10, 1 << 30, 1.0);
  EXPECT_EQ(pace.point().last_step, 1000);
  EXPECT_EQ(pace.schedule_step(999), 999);
}

TEST(Pace, IsPlannedAfterFewStepsAndThenLessOften) {
  Pace pace(100'000, 0, std::nullopt);
  std::vector<std::int64_t> plans;
  for (std::int64_t step = 0; step < 10'000; ++step) {
    if (!pace.is_due(step)) continue;
    pace.replan(step, 10'000 - step, 1.0);
    plans.push_back(step);
  }
  EXPECT_EQ(plans.at(0), 4);
  EXPECT_EQ(plans.at(1), 8);
  EXPECT_LT(plans.size(), 200u);
  EXPECT_GT(plans.back(), 9'900);
}

TEST(Pace, GoesOnWhereItsLastLineLeftOff) {
  const TemporaryDirectory directory;
  Pace pace(1000, 0, std::nullopt);
  pace.replan(10, 90, 2.5);
  std::string lines;
  for (const PacePoint& point :
       {PacePoint{.step = 4, .last_step = 7}, pace.point(), PacePoint{.step = 60, .last_step = 70}}) {
    lines += json_text(pace_fields(point)) + "\n{\"step\": 50, \"loss\": 1.5}\n";
  }
  write_text(directory.path() / "metrics.jsonl", lines);
  const std::optional<PacePoint> logged = logged_pace(directory.path(), 55);
  ASSERT_TRUE(logged);
  EXPECT_EQ(logged->seconds, 2.5);
  const Pace resumed(1000, 55, logged);
  EXPECT_EQ(resumed.point().step, 55);
  EXPECT_EQ(resumed.point().last_step, 100);
  for (const std::int64_t step : {55, 70, 99}) EXPECT_EQ(resumed.schedule_step(step), pace.schedule_step(step));
  EXPECT_FALSE(logged_pace(directory.path(), 3));
}

}  // namespace
}  // namespace carillon::testing
