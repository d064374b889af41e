#include "src/train/checkpointing/run_checkpoints.h"

#include <gmock/gmock.h>

#include <thread>

#include "src/train/checkpointing/best_checkpoint.h"
#include "tests/support/metrics.h"
#include "tests/train/run_parts_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(RunPartsTest, SavesNoStateThatIsNotFinite) {
  Parts run(*this);
  tower_.parameters().value(1).floats()[0] = NAN;
  Failure failed = failure_of([&] { run.checkpoints.save({.step = 1}, tower_); });
  EXPECT_EQ(failed.code, first() ? ExitCode::failed : ExitCode::done);
  run.checkpoints.finish({.step = 1}, ExitCode::done);
  EXPECT_THAT(list_checkpoints(train_dir()), IsEmpty());
}

TEST_F(RunPartsTest, AsksForACheckpointWhenTheLastIsOld) {
  constexpr std::chrono::hours interval(100);
  options_.checkpoint.checkpoint_every_seconds = std::chrono::seconds(interval).count();
  Parts run(*this);
  const auto before = RunCheckpoints::Clock::now();
  run.checkpoints.start_clock();
  const auto started = RunCheckpoints::Clock::now();
  EXPECT_FALSE(run.checkpoints.poll(before + interval - std::chrono::nanoseconds(1)).any());
  EXPECT_EQ(run.checkpoints.poll(started + interval).save, first());
  run.checkpoints.save({.step = 1}, tower_);
  const auto saved = RunCheckpoints::Clock::now();
  EXPECT_FALSE(run.checkpoints.poll(started + interval).any());  // the interval begins at the end of the last save
  EXPECT_EQ(run.checkpoints.poll(saved + interval).save, first());
  run.checkpoints.finish({.step = 1}, ExitCode::done);
}

TEST_F(RunPartsTest, AsksToGiveUpWhenACheckpointFailedTooOften) {
  options_.checkpoint.checkpoint_failures = 0;
  Parts run(*this);
  {
    const FileSizeLimit limit(100);
    run.checkpoints.save({.step = 1}, tower_);
    while (first() && !run.checkpoints.poll().give_up) std::this_thread::yield();
  }
  EXPECT_EQ(run.checkpoints.poll().give_up, first());
  EXPECT_EQ(requested_by_any(mpi_, run.checkpoints.poll()).give_up, true);
  run.checkpoints.save({.step = 2}, tower_);
  ExitCode code = ExitCode::done;
  try {
    run.checkpoints.finish({.step = 2}, ExitCode::io);
  } catch (const SharedError& error) {
    EXPECT_TRUE(first());
    EXPECT_THAT(error.what(), HasSubstr("model.ckpt-1.h5: File too large; ended at step 2, with a checkpoint"));
    code = error.code();
  } catch (const PeerFailed& peer) {
    code = peer.code();
  }
  EXPECT_EQ(code, ExitCode::io);
  EXPECT_EQ(list_checkpoints(train_dir()).size(), first() ? 1u : 0u);
}

TEST_F(RunPartsTest, RemoveFilesOfAKilledWriter) {
  const auto stale = train_dir() / "model.ckpt-5.h5.4711.tmp";
  if (first()) {
    std::filesystem::create_directories(train_dir());
    write_text(stale, "half a checkpoint");
  }
  const Parts run(*this);
  EXPECT_FALSE(std::filesystem::exists(stale));
}

/// Each run evaluates once and ends. Its recorded training time is 60 s, which is long enough for a summary.
TEST_F(RunPartsTest, NamesTheStepOfTheBestCheckpointAfterAResumeToo) {
  options_.checkpoint.keep_best = true;
  for (const std::int64_t step : {1, 5}) {
    Parts run(*this);
    run.log.open(step - 1);
    run.log.log_evaluation(step, accuracy_of(2, 4), {});
    run.checkpoints.keep_if_best({.step = step}, run.score.of(accuracy_of(2, 4)), tower_);
    ::testing::internal::CaptureStdout();
    run.finish(step, {.training = 60.0});
    const std::string told = ::testing::internal::GetCapturedStdout();
    if (first()) {
      EXPECT_THAT(told, ::testing::ContainsRegex("best accuracy +0.5000  2/4 at step 1\n"));
    }
  }
}

TEST_F(RunPartsTest, KeepsTheFirstOfTheBestEvaluationsOverAllRuns) {
  const auto best_step_after = [&](std::int64_t step, std::int64_t correct) {
    Parts run(*this);
    run.checkpoints.keep_if_best({.step = step}, run.score.of(accuracy_of(correct, 4)), tower_);
    run.checkpoints.finish({.step = step}, ExitCode::done);
    return first() ? read_checkpoint(best_checkpoint_path(train_dir())).global_step : 0;
  };
  EXPECT_EQ(best_step_after(10, 2), first() ? 10 : 0);
  EXPECT_EQ(best_step_after(20, 3), first() ? 20 : 0);
  EXPECT_EQ(best_step_after(30, 3), first() ? 20 : 0);
  EXPECT_EQ(best_step_after(40, 1), first() ? 20 : 0);
  EXPECT_FALSE(!first() && std::filesystem::exists(train_dir()));
  description_.add("evaluation record checksum", std::uint64_t{7}, Scope::run);
  EXPECT_EQ(best_step_after(50, 1), first() ? 50 : 0);  // the scores are not compared, because the evaluation records
                                                        // differ
  options_.checkpoint.keep_best = false;
  EXPECT_EQ(best_step_after(60, 4), first() ? 50 : 0);
}

TEST_F(RunPartsTest, TheBestCheckpointHoldsTheCountsOfItsScore) {
  Parts run(*this);
  run.checkpoints.keep_if_best({.step = 1}, run.score.of(accuracy_of(3, 4)), tower_);
  run.checkpoints.finish({.step = 1}, ExitCode::done);
  if (!first()) return;
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).options_json,
            R"({"evaluation correct":3,"evaluation total":4})");
}

TEST_F(RunPartsTest, KeepsTheLowestOfScoresOfWhichLowerIsBetter) {
  options_.task.value = error_task();
  const auto best_after = [&](std::int64_t step, double error) {
    Parts run(*this);
    run.checkpoints.keep_if_best({.step = step}, run.score.of(ErrorMetric(error)), tower_);
    run.checkpoints.finish({.step = step}, ExitCode::done);
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
  EXPECT_TRUE(is_same(R"(7, "image_size": 72)"));  // in the form in which versions without eval_image_size stored it
  EXPECT_FALSE(is_same(R"(7, "image_size": 64, "eval_image_size": 0)"));
  EXPECT_FALSE(is_same(R"(8, "image_size": 64, "eval_image_size": 72)"));
}

}  // namespace
}  // namespace carillon::testing
