#include "src/train/loop/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;

/// Returns the steps from 0 to 11 for which `holds` returns true.
std::vector<std::int64_t> steps(const TrainOptions& options, bool (*holds)(const StepPlan&)) {
  std::vector<std::int64_t> found;
  for (std::int64_t step = 0; step < 12; ++step) {
    if (holds(plan_step(step, options))) found.push_back(step);
  }
  return found;
}

const TrainOptions every{.data = {.eval_every = 4},
                         .optimizer = {.max_steps = 12},
                         .checkpoint = {.checkpoint_every = 6},
                         .logging = {.log_every = 5, .summary_every = 3},
                         .faults = {.check_replicas = 9, .audit = 5}};
const TrainOptions never{.data = {.eval_every = 0},
                         .optimizer = {.max_steps = 20},
                         .checkpoint = {.checkpoint_every = 0},
                         .logging = {.log_every = 0, .summary_every = 0},
                         .faults = {.check_replicas = 0}};

TEST(StepPlan, LogsAndSummarizesFromTheFirstStepAndSummarizesTheLast) {
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.logs; }), ElementsAre(0, 5, 10));
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.summarizes; }), ElementsAre(0, 3, 6, 9, 11));
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.tells_loss(); }), ElementsAre(0, 3, 5, 6, 9, 10, 11));
}

TEST(StepPlan, SummarizesStepZeroNotWhereTheReferenceDoesNot) {
  TrainOptions options = every;
  options.logging.summarize_start = false;
  EXPECT_THAT(steps(options, [](const StepPlan& plan) { return plan.summarizes; }), ElementsAre(3, 6, 9, 11));
}

TEST(StepPlan, SavesAndEvaluatesAfterSoManySteps) {
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.saves; }), ElementsAre(5, 11));
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.evaluates; }), ElementsAre(3, 7, 11));
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.last; }), ElementsAre(11));
}

TEST(StepPlan, ComparesAfterSoManySteps) {
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.compares; }), ElementsAre(8));
}

TEST(StepPlan, AuditsEverySoManySteps) {
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.audits; }), ElementsAre(4, 9));
  EXPECT_TRUE(steps(never, [](const StepPlan& plan) { return plan.audits; }).empty());
}

TEST(StepPlan, NeedsAllResultsBeforeWhatTheyDecideAndNotForALine) {
  EXPECT_THAT(steps(every, [](const StepPlan& plan) { return plan.needs_results(); }),
              ElementsAre(0, 3, 5, 6, 7, 8, 9, 11));
}

TEST(StepPlan, OfPeriodZeroHoldsNothing) {
  EXPECT_TRUE(steps(never, [](const StepPlan& plan) { return plan.needs_results(); }).empty());
}

}  // namespace

}  // namespace carillon::testing
