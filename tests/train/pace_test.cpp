#include "src/train/loop/pace.h"

#include <gtest/gtest.h>

#include <vector>

#include "carillon/core/file.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(Pace, LeavesTimeForTheEvaluations) {
  Pace pace(40.0, 1000, 0, std::nullopt);
  PhaseSeconds spent{.start = 3.0, .training = 1.0};
  EXPECT_EQ(pace.fitting_steps(8, spent, 0, 16), 288) << "no evaluation is known yet";
  spent.evaluation = 4.0;
  EXPECT_EQ(pace.fitting_steps(8, spent, 2, 0), 240);
  EXPECT_EQ(pace.fitting_steps(8, spent, 2, 16), 120);
  pace.replan(8, 100, spent);
  spent.data = 2.0;  // from here on, the steps are slower
  EXPECT_EQ(pace.fitting_steps(16, spent, 2, 0), 112);
  spent.checkpoints = 100.0;
  EXPECT_EQ(pace.fitting_steps(16, spent, 2, 0), 1);
}

TEST(Pace, EstimatesTheTimeOfAnEvaluationUntilOneIsMeasured) {
  const Pace pace(40.0, 1000, 0, std::nullopt, 16.0);
  PhaseSeconds spent{.start = 3.0, .training = 1.0};  // 8 steps in a second: an evaluation takes 2 s
  EXPECT_EQ(pace.fitting_steps(8, spent, 0, 0), 272);
  EXPECT_EQ(pace.fitting_steps(8, spent, 0, 16), 136);
  spent.evaluation = 4.0;
  EXPECT_EQ(pace.fitting_steps(8, spent, 1, 0), 224);
}

TEST(Pace, FindsTheLatestPositionWithAShareOfTheHighestRate) {
  const Schedule falling = warm_up({.from = 0.0, .steps = 100}, cosine_decay({.initial = 0.4, .steps = 900}));
  EXPECT_EQ(latest_position(falling, 1000, 1.0), 0.0);
  EXPECT_NEAR(latest_position(falling, 1000, 0.5), 550.0, 2.0);  // half of the cosine's fall
  EXPECT_NEAR(latest_position(falling, 1000, 0.0), 999.0, 1.0);
}

/// If the time is too short, a run ends one step after the fit of the last layer. `carillon train --more` continues
/// from this step, or from the fit.
TEST(Pace, ALargerBudgetContinuesARunThatEndedAfterTheFit) {
  for (const std::int64_t step : {0, 1}) {
    const PacePoint fitted{.step = 0, .schedule_step = 250.0, .last_step = 1, .seconds = 20.0, .time_budget = 30.0};
    const Pace pace(60.0, 1000, step, fitted);
    EXPECT_EQ(pace.point().last_step, 1000) << step;
    EXPECT_EQ(pace.schedule_step(step), step == 0 ? 125 : 500);
  }
}

TEST(Pace, MayBeginLaterInTheSchedule) {
  Pace pace(60.0, 1000, 0, std::nullopt);
  pace.start_at(600.0);
  EXPECT_EQ(pace.schedule_step(0), 600);
  EXPECT_EQ(pace.schedule_step(500), 800);
  pace.replan(500, 100, {});
  EXPECT_EQ(pace.schedule_step(550), 900);
}

TEST(Pace, KnowsTheTimeThatIsLeft) {
  const PacePoint last{.step = 90, .schedule_step = 900.0, .last_step = 100, .seconds = 55.0, .time_budget = 60.0};
  EXPECT_EQ(Pace(60.0, 1000, 0, std::nullopt).seconds_left({.start = 50.0, .evaluation = 20.0}), -10.0);
  EXPECT_EQ(Pace(60.0, 1000, 100, last).seconds_left({.start = 2.0}), 3.0);
}

TEST(Pace, FollowsTheStepsUntilItIsPlanned) {
  const Pace pace(60.0, 1000, 0, std::nullopt);
  for (const std::int64_t step : {0, 1, 500, 999}) EXPECT_EQ(pace.schedule_step(step), step);
}

TEST(Pace, MovesThroughTheWholeScheduleInTheStepsThatAreLeft) {
  Pace pace(60.0, 1000, 0, std::nullopt);
  pace.replan(4, 96, {});
  EXPECT_EQ(pace.point().last_step, 100);
  EXPECT_EQ(pace.schedule_step(4), 4);
  EXPECT_EQ(pace.schedule_step(52), 502);
  EXPECT_EQ(pace.schedule_step(99), 990);
  pace.replan(52, 8, {});
  EXPECT_EQ(pace.point().last_step, 60);
  EXPECT_EQ(pace.schedule_step(52), 502);
  EXPECT_EQ(pace.schedule_step(56), 751);
}

TEST(Pace, EndsAtTheLengthOfTheScheduleAtTheLatest) {
  Pace pace(60.0, 1000, 0, std::nullopt);
  pace.replan(10, 1 << 30, {});
  EXPECT_EQ(pace.point().last_step, 1000);
  EXPECT_EQ(pace.schedule_step(999), 999);
}

TEST(Pace, IsPlannedAfterFewStepsAndThenLessOften) {
  Pace pace(60.0, 100'000, 0, std::nullopt);
  std::vector<std::int64_t> plans;
  for (std::int64_t step = 0; step < 10'000; ++step) {
    if (!pace.is_due(step)) continue;
    pace.replan(step, 10'000 - step, {});
    plans.push_back(step);
  }
  EXPECT_EQ(plans.at(0), 4);
  EXPECT_EQ(plans.at(1), 8);
  EXPECT_LT(plans.size(), 200u);
  EXPECT_GT(plans.back(), 9'900);
}

TEST(Pace, GoesOnWhereItsLastLineLeftOff) {
  const TemporaryDirectory directory;
  Pace pace(60.0, 1000, 0, std::nullopt);
  pace.replan(10, 90, {.training = 2.5});
  std::string lines;
  for (const PacePoint& point : {PacePoint{.step = 4, .last_step = 7, .time_budget = 60.0}, pace.point(),
                                 PacePoint{.step = 60, .last_step = 70, .time_budget = 60.0}}) {
    lines += json_text(pace_fields(point)) + "\n{\"step\": 50, \"loss\": 1.5}\n";
  }
  write_text(directory.path() / "metrics.jsonl", lines);
  const std::optional<PacePoint> logged = logged_pace(directory.path(), 55);
  ASSERT_TRUE(logged);
  EXPECT_EQ(logged->seconds, 2.5);
  const Pace resumed(60.0, 1000, 55, logged);
  EXPECT_EQ(resumed.fitting_steps(56, {.training = 0.5}, 0, 0), 114) << "57 s are left";
  EXPECT_EQ(resumed.point().step, 55);
  EXPECT_EQ(resumed.point().last_step, 100);
  for (const std::int64_t step : {55, 70, 99}) EXPECT_EQ(resumed.schedule_step(step), pace.schedule_step(step));
  EXPECT_FALSE(logged_pace(directory.path(), 3));
}

TEST(Pace, ALargerTimeContinuesARunThatHasEnded) {
  const PacePoint last{.step = 90, .schedule_step = 900.0, .last_step = 100, .seconds = 55.0, .time_budget = 60.0};
  EXPECT_EQ(Pace(60.0, 1000, 100, last).point().last_step, 100) << "the same time: it has ended";
  Pace longer(240.0, 1000, 100, last);
  EXPECT_EQ(longer.schedule_step(100), 250) << "a quarter of the time was used";
  EXPECT_EQ(longer.point().last_step, 400);
  EXPECT_EQ(longer.fitting_steps(101, {.training = 1.0}, 0, 0), 184);
  longer.replan(104, 150, {.training = 4.0});
  EXPECT_EQ(longer.point().time_budget, 240.0);
  EXPECT_GT(longer.schedule_step(104), 250);
  EXPECT_EQ(Pace(240.0, 1000, 104, longer.point()).schedule_step(104), longer.schedule_step(104));
}

}  // namespace
}  // namespace carillon::testing
