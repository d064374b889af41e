// The best checkpoint that a recorder keeps.
#include <gmock/gmock.h>

#include "src/train/checkpointing/best_checkpoint.h"
#include "tests/support/metrics.h"
#include "tests/train/recorder_test.h"

namespace carillon::testing {
namespace {

/// A run that evaluates once and ends, long enough for a summary.
TEST_F(RecorderTest, NamesTheStepOfTheBestCheckpointAfterAResumeToo) {
  options_.checkpoint.keep_best = true;
  for (const std::int64_t step : {1, 5}) {
    Recorder recorder(options_, task_, description_, mpi_, Recorder::Clock::now() - std::chrono::minutes(1));
    recorder.open_directory();
    recorder.open_logs(step - 1);
    recorder.start_clock();
    recorder.log_evaluation(step, accuracy_of(2, 4), {});
    recorder.keep_if_best({.step = step}, accuracy_of(2, 4), tower_);
    ::testing::internal::CaptureStdout();
    recorder.finish({.step = step}, ExitCode::done);
    const std::string told = ::testing::internal::GetCapturedStdout();
    if (first()) {
      EXPECT_THAT(told, ::testing::ContainsRegex("best accuracy +0.5000  2/4 at step 1\n"));
    }
  }
}

TEST_F(RecorderTest, KeepsTheFirstOfTheBestEvaluationsOverAllRuns) {
  const auto best_step_after = [&](std::int64_t step, std::int64_t correct) {
    Recorder recorder(options_, task_, description_, mpi_);
    recorder.open_directory();
    recorder.open_logs(step);
    recorder.keep_if_best({.step = step}, accuracy_of(correct, 4), tower_);
    recorder.finish({.step = step}, ExitCode::done);
    return first() ? read_checkpoint(best_checkpoint_path(train_dir())).global_step : 0;
  };
  EXPECT_EQ(best_step_after(10, 2), first() ? 10 : 0);
  EXPECT_EQ(best_step_after(20, 3), first() ? 20 : 0);
  EXPECT_EQ(best_step_after(30, 3), first() ? 20 : 0);
  EXPECT_EQ(best_step_after(40, 1), first() ? 20 : 0);
  EXPECT_FALSE(!first() && std::filesystem::exists(train_dir()));
  description_.add("evaluation record checksum", std::uint64_t{7}, Scope::run);
  EXPECT_EQ(best_step_after(50, 1), first() ? 50 : 0);  // evaluations of other records are not compared
  options_.checkpoint.keep_best = false;
  EXPECT_EQ(best_step_after(60, 4), first() ? 50 : 0);
}

TEST(SameEvaluation, HasTheSameRecordsAndTheSameImageSize) {
  RunDescription now;
  now.add("evaluation record checksum", std::uint64_t{7}, Scope::run);
  now.add("image_size", std::int64_t{64}, Scope::result);
  now.add("eval_image_size", std::int64_t{72}, Scope::run);
  const auto is_same = [&](const std::string& before) {
    return same_evaluation(R"({"evaluation record checksum":)" + before + "}", now);
  };
  EXPECT_TRUE(is_same(R"(7, "image_size": 64, "eval_image_size": 72)"));
  EXPECT_TRUE(is_same(R"(7, "image_size": 72, "eval_image_size": 0)"));
  EXPECT_TRUE(is_same(R"(7, "image_size": 72)"));  // of earlier versions
  EXPECT_FALSE(is_same(R"(7, "image_size": 64, "eval_image_size": 0)"));
  EXPECT_FALSE(is_same(R"(8, "image_size": 64, "eval_image_size": 72)"));
}

TEST_F(RecorderTest, TheBestCheckpointHoldsTheCountsOfItsScore) {
  recorder_.open_directory();
  recorder_.open_logs(0);
  recorder_.keep_if_best({.step = 1}, accuracy_of(3, 4), tower_);
  recorder_.finish({.step = 1}, ExitCode::done);
  if (!first()) return;
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).options_json,
            R"({"evaluation correct":3,"evaluation total":4})");
}

TEST_F(RecorderTest, KeepsTheLowestOfScoresOfWhichLowerIsBetter) {
  task_ = error_task();
  const auto best_after = [&](std::int64_t step, double error) {
    Recorder recorder(options_, task_, description_, mpi_);
    recorder.open_directory();
    recorder.open_logs(step);
    recorder.keep_if_best({.step = step}, ErrorMetric(error), tower_);
    recorder.finish({.step = step}, ExitCode::done);
    if (!first()) return std::pair<std::int64_t, std::string>();
    const CheckpointState state = read_checkpoint(best_checkpoint_path(train_dir()));
    return std::pair(state.global_step, state.options_json);
  };
  const auto expected = [&](std::int64_t step, const std::string& options) {
    return first() ? std::pair(step, options) : std::pair<std::int64_t, std::string>();
  };
  EXPECT_EQ(best_after(10, 2.5), expected(10, R"({"evaluation error":2.5})"));
  EXPECT_EQ(best_after(20, 3.0), expected(10, R"({"evaluation error":2.5})"));
  EXPECT_EQ(best_after(30, 2.5), expected(10, R"({"evaluation error":2.5})"));
  EXPECT_EQ(best_after(40, 0.25), expected(40, R"({"evaluation error":0.25})"));
}

}  // namespace
}  // namespace carillon::testing
