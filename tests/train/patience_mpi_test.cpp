// Tests that a run ends after --patience evaluations without an improvement.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PatienceTest : public RunTest {
 protected:
  PatienceTest() {
    options_.data.eval_files = {(directory_ / "test").string()};
    options_.data.eval_every = 2;
    options_.optimizer.max_steps = 30;
    options_.checkpoint.checkpoint_every = 3;
    options_.checkpoint.keep_checkpoints = 0;
    options_.task.patience = 3;
  }

  std::string output() {
    mpi_.barrier();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(train(), ExitCode::done);
    mpi_.barrier();
    return ::testing::internal::GetCapturedStdout();
  }
  struct Evaluation {
    std::int64_t step, correct;
    bool operator==(const Evaluation&) const = default;
  };
  std::vector<Evaluation> evaluations() const {
    std::vector<Evaluation> found;
    std::ifstream file(train_dir() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("eval_correct")) found.push_back({record.at("step"), record.at("eval_correct")});
    }
    return found;
  }
  /// Returns the step at which --patience ends a run with these evaluations, or 0 if it never ends the run. Only
  /// evaluations at multiples of eval_every count.
  std::int64_t expected_end(const std::vector<Evaluation>& all) const {
    std::int64_t best = -1, since = 0;
    for (const auto& [step, correct] : all) {
      if (step % options_.data.eval_every != 0) continue;
      since = correct > best ? 0 : since + 1;
      best = std::max(best, correct);
      if (since == options_.task.patience) return step;
    }
    return 0;
  }
};

TEST_F(PatienceTest, EndsTheRunWithACheckpointAndNamesTheBest) {
  const std::string told = output();
  const std::vector<Evaluation> all = evaluations();
  const std::int64_t end = expected_end(all);
  ASSERT_GT(end, 0);
  ASSERT_LT(end, options_.optimizer.max_steps);
  EXPECT_EQ(all.back().step, end);
  EXPECT_EQ(list_checkpoints(train_dir()).front(), end);
  const Evaluation best = *std::ranges::max_element(all, {}, &Evaluation::correct);
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(train_dir())).global_step, best.step);
  if (mpi_.rank() != 0) return;
  const std::string score = fmt::format("accuracy {:.4f} ({}/20) at step {}\n", static_cast<double>(best.correct) / 20,
                                        best.correct, best.step);
  EXPECT_THAT(
      told,
      HasSubstr(fmt::format("ended by --patience 3 at step {}: no later evaluation was better than ", end) + score));
  EXPECT_THAT(told, HasSubstr(fmt::format("best checkpoint {}: ", best_checkpoint_path(train_dir()).string()) + score));
}

TEST_F(PatienceTest, NamesTheBestCheckpointOfEveryRun) {
  options_.task.patience = 0;
  const std::string told = output();
  EXPECT_EQ(list_checkpoints(train_dir()).front(), options_.optimizer.max_steps);
  if (mpi_.rank() != 0) return;
  EXPECT_THAT(told, HasSubstr("best checkpoint "));
  EXPECT_THAT(told, Not(HasSubstr("--patience")));
}

TEST_F(PatienceTest, CountsOnAfterEachStepOfAnInterruption) {
  output();
  const std::vector<Evaluation> once = evaluations();
  const CheckpointState expected = saved(once.back().step);
  for (std::int64_t stop = 1; stop < once.back().step; ++stop) {
    SCOPED_TRACE(stop);
    options_.checkpoint.train_dir = (directory_ / fmt::format("stopped at {}", stop)).string();
    TrainOptions first = options_;
    first.optimizer.max_steps = stop;
    train(first);
    mpi_.barrier();
    output();
    std::vector<Evaluation> all = evaluations();
    std::erase_if(all, [&](const Evaluation& evaluation) { return evaluation.step % options_.data.eval_every != 0; });
    EXPECT_TRUE(all == once);
    EXPECT_EQ(list_checkpoints(train_dir()).front(), once.back().step);
    EXPECT_TRUE(saved(once.back().step).variables == expected.variables);
  }
}

TEST_F(PatienceTest, DoesNotChangeARunThatItHasEnded) {
  output();
  const std::int64_t end = evaluations().back().step;
  const std::size_t entries = entry_count(train_dir());
  const std::string told = output();
  EXPECT_EQ(entry_count(train_dir()), entries);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told,
                HasSubstr(fmt::format("nothing to do: {} holds step {}, where --patience 3 ended the run (--fresh "
                                      "starts over)\n",
                                      options_.checkpoint.train_dir, end)));
  }
  options_.task.patience = 0;
  output();
  EXPECT_EQ(list_checkpoints(train_dir()).front(), options_.optimizer.max_steps);
}

TEST_F(PatienceTest, RepeatsAnEvaluationThatAKilledRunDidNotLog) {
  output();
  const std::vector<Evaluation> all = evaluations();
  mpi_.barrier();
  if (mpi_.rank() == 0) {
    const std::string metrics = read_text(train_dir() / "metrics.jsonl");
    write_text(train_dir() / "metrics.jsonl", metrics.substr(0, metrics.find_last_of('\n', metrics.size() - 2) + 1));
  }
  const std::string told = output();
  EXPECT_TRUE(evaluations() == all);
  EXPECT_EQ(list_checkpoints(train_dir()).front(), all.back().step);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr(fmt::format("ended by --patience 3 at step {}", all.back().step)));
  }
}

/// Scores on different evaluation records cannot be compared, so the run must not compare new scores with the earlier
/// best score.
TEST_F(PatienceTest, StartsAgainWithOtherEvaluationRecords) {
  output();
  const std::int64_t end = evaluations().back().step;
  options_.data.eval_files = {(directory_ / "train").string()};
  options_.checkpoint.keep_best = false;
  output();
  EXPECT_GE(evaluations().back().step, std::min(end + 3 * options_.data.eval_every, options_.optimizer.max_steps));
}

}  // namespace
}  // namespace carillon::testing
