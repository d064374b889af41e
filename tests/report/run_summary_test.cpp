#include "src/report/run_summary.h"

#include <gmock/gmock.h>

#include "src/tasks/class_counts.h"

namespace carillon::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const PhaseSeconds times{.start = 0.4, .data = 0.1, .training = 32.1, .evaluation = 1.21, .checkpoints = 0.4};

TEST(TargetLine, ReportsTheTimeSinceTheStartByPhases) {
  EXPECT_EQ(target_line(2400, Accuracy{.correct = 9840, .total = 10000}.score(), 0.98, times),
            "reached accuracy 0.9840 (9840/10000) at step 2400, --stop-at-accuracy 0.98, after 34.21 s: start 0.40 s, "
            "data 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s");
  EXPECT_THAT(target_line(7, {.name = "error", .value = 0.25}, 0.3, times),
              StartsWith("reached error 0.2500 at step 7, --stop-at-accuracy 0.3, after 34.21 s: "));
}

TEST(PatienceLine, NamesTheBestEvaluation) {
  EXPECT_EQ(patience_line(2400, 3, StepScore{900, Accuracy{.correct = 9707, .total = 10000}.score()}),
            "ended by --patience 3 at step 2400: no later evaluation was better than accuracy 0.9707 (9707/10000) at "
            "step 900");
  EXPECT_EQ(patience_line(2400, 3, std::nullopt), "ended by --patience 3 at step 2400: all scores are NaN");
}

TEST(BestCheckpointLine, NamesFileScoreAndStep) {
  EXPECT_EQ(best_checkpoint_line("runs/best.ckpt.h5", {7, {.name = "error", .value = 0.25}}),
            "best checkpoint runs/best.ckpt.h5: error 0.2500 at step 7");
}

RunSummary summary() {
  return {.first_step = 1000,
          .last_step = 3000,
          .global_batch = 128,
          .best = {{.step = 2500, .score = Accuracy{.correct = 9832, .total = 10000}.score()}},
          .seconds = {.start = 1.0, .data = 4.0, .training = 60.0, .evaluation = 10.0, .checkpoints = 5.0},
          .rank_work = {64.0, 44.0, 60.0, 70.0}};
}

TEST(RunSummary, IsATableOfTheRunsWorkAndItsTimes) {
  // Ranks waited for 0, 20, 4 and 0 s; more work than the first rank had time is a matter of rounding.
  EXPECT_THAT(summary_lines(summary()),
              ElementsAre("steps                  2000  from 1000 to 3000",                                //
                          "images/s             4000.0  in training, with data wait",                      //
                          "best accuracy        0.9832  9832/10000 at step 2500",                          //
                          "wall time                       share",                                         //
                          "start                1.00 s     1.2 %",                                         //
                          "data wait            4.00 s     5.0 %",                                         //
                          "training            60.00 s    75.0 %",                                         //
                          "  rank wait          6.00 s     7.5 %  mean of 4 ranks; most, rank 1: 25.0 %",  //
                          "evaluation          10.00 s    12.5 %",                                         //
                          "checkpoints          5.00 s     6.2 %",                                         //
                          "total               80.00 s   100.0 %"));
}

TEST(RunSummary, NamesABestScoreThatIsNotARatioWithoutCounts) {
  RunSummary run = summary();
  run.best->score = {.name = "error", .value = 0.25};
  EXPECT_EQ(summary_lines(run).at(2), "best error           0.2500  at step 2500");
}

TEST(RunSummary, SaysNothingOfAShortRun) {
  RunSummary run = summary();
  EXPECT_THAT(summary_lines(run, 80.5), IsEmpty());
  EXPECT_THAT(summary_lines(run, 80.0), SizeIs(11));
  run.seconds = {.training = 9.99};
  EXPECT_THAT(summary_lines(run), IsEmpty());
  run.seconds = {.training = 10.0};
  EXPECT_THAT(summary_lines(run), SizeIs(11));
}

TEST(RunSummary, OmitsRowsThatDoNotApply) {
  RunSummary run = summary();
  run.best.reset();
  run.rank_work.clear();
  run.last_step = run.first_step;
  const std::vector<std::string> lines = summary_lines(run);
  EXPECT_THAT(lines, SizeIs(8));
  for (const char* const name : {"images/s", "best accuracy", "  rank wait"}) {
    EXPECT_THAT(lines, Each(Not(StartsWith(name))));
  }
}

TEST(RunSummary, StaysAlignedInALongFastRun) {
  RunSummary run = summary();
  run.last_step = 123456789;
  run.global_batch = 8192;
  run.seconds.training = 1234567.0;
  const std::vector<std::string> lines = summary_lines(run);
  EXPECT_EQ(lines[0], "steps             123455789  from 1000 to 123456789");
  EXPECT_EQ(lines[1], "images/s           819191.3  in training, with data wait");
  EXPECT_EQ(lines[6], "training       1234567.00 s   100.0 %");
  EXPECT_EQ(lines[10], "total          1234587.00 s   100.0 %  342 h 56 min");
}

}  // namespace
}  // namespace carillon::testing
