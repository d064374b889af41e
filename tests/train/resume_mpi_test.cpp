#include <gmock/gmock.h>

#include "src/train/checkpointing/run_start.h"
#include "tests/support/metrics.h"
#include "tests/train/run_parts_test.h"

namespace carillon::testing {
namespace {

using ::testing::StartsWith;

TEST_F(RunPartsTest, ReachATargetFromAboveIfLowerIsBetter) {
  options_.task.value = error_task();
  options_.task.stop_at_accuracy = 0.5;
  options_.checkpoint.keep_best = false;
  Parts run(*this);
  run.log.open(0);
  ::testing::internal::CaptureStdout();
  run.log.log_evaluation(1, ErrorMetric(0.75), {});
  run.log.log_evaluation(2, ErrorMetric(0.5), {});
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(run.score.reaches_target(run.score.of(ErrorMetric(0.75))));
  EXPECT_TRUE(run.score.reaches_target(run.score.of(ErrorMetric(0.5))));
  const auto end_at = [&](std::int64_t step, std::int64_t max_steps) {
    options_.optimizer.max_steps = max_steps;
    Patience patience(run.score, 0);
    const RunStart start{.position = {.step = step, .resumed = true}, .same_evaluation = true};
    return end_of_resumed({options_, start, true, run.score, run.checkpoints, tower_, mpi_}, patience);
  };
  EXPECT_EQ(end_at(1, 9), std::nullopt);
  EXPECT_EQ(end_at(2, 9), EndCause::target);
  EXPECT_EQ(end_at(1, 1), EndCause::steps);
  EXPECT_EQ(end_at(3, 3), std::nullopt) << "the last evaluation is not logged";
  if (!first()) return;
  EXPECT_THAT(printed, StartsWith("step 1: error = 0.750\nstep 2: error = 0.500\n"));
  EXPECT_EQ(last_metrics().at("eval_error"), 0.5);
}

TEST(Resume, SaysWhichSettingsChangedAtAResume) {
  RunDescription description;
  description.add("seed", std::uint64_t{2}, Scope::result);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  print_resumed({"somewhere/model.ckpt-3.h5", {.global_step = 3, .options_json = R"({"seed":1})"}}, {}, description);
  const std::string lines = ::testing::internal::GetCapturedStdout();
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines, "resuming from somewhere/model.ckpt-3.h5 at step 3\n");
  EXPECT_EQ(warnings, "warning: --seed was 1 up to the checkpoint and is 2 from here\n");
}

TEST(InitFrom, SaysWhatInitFromGave) {
  RunDescription description;
  description.add("preprocessing", "torchvision", Scope::result);
  const auto said = [&](const std::string& options, const std::vector<std::string>& excluded) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    print_initialized({"a.h5", {.options_json = options, .variables = {{"x"}, {"y"}}, .buffers = {{"z"}}}}, excluded,
                      description);
    const std::string lines = ::testing::internal::GetCapturedStdout();
    return lines + ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("{}", {}), "initialized from a.h5: 3 arrays\n");
  EXPECT_EQ(said(R"({"preprocessing": "torchvision"})", {"y"}),
            "initialized from a.h5: 2 arrays, without the variables of --init-exclude: y\n");
  EXPECT_EQ(
      said(R"({"preprocessing": "inception"})", {}),
      "initialized from a.h5: 3 arrays\nwarning: a.h5 was trained with --preprocessing \"inception\", and this run "
      "has \"torchvision\"\n");
}

}  // namespace
}  // namespace carillon::testing
