// Tests runs that end when an evaluation reaches --stop-at-accuracy.
#include <gmock/gmock.h>

#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class StopAtAccuracy : public RunTest {
 protected:
  /// Writes datasets in which all records have one label. A training learns this label after some steps.
  StopAtAccuracy() {
    if (mpi_.rank() == 0) {
      write_text(directory_ / "train", records_of(60, 7));
      write_text(directory_ / "test", records_of(20, 7));
    }
    mpi_.barrier();
    options_.data.eval_files = {(directory_ / "test").string()};
    options_.data.eval_every = 1;
    options_.optimizer.schedule.learning_rate = 0.002;
    options_.task.stop_at_accuracy = 0.9;
  }
  /// Runs until an evaluation reaches --stop-at-accuracy. Expects that only the last evaluation reaches it. Returns the
  /// output.
  std::string reach() {
    std::string told = output();
    const std::vector<nlohmann::json> all = evaluations();
    last_ = static_cast<std::int64_t>(all.size());
    for (const auto& line : all) {
      EXPECT_EQ(line.at("eval_precision") >= options_.task.stop_at_accuracy, line == all.back()) << line;
    }
    EXPECT_GT(last_, 1);
    EXPECT_LT(last_, 12);
    mpi_.barrier();
    return told;
  }

  static std::string records_of(int count, int label) {
    std::string records;
    for (int i = 0; i < count; ++i) append_record(records, mnist_example(i, label));
    return records;
  }
  std::vector<nlohmann::json> evaluations() const {
    std::vector<nlohmann::json> found;
    std::ifstream file(train_dir() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("eval_precision")) found.push_back(record);
    }
    return found;
  }
  /// Runs the training, which must succeed. Returns the text that rank 0 prints.
  std::string output() {
    mpi_.barrier();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(train(), ExitCode::done);
    mpi_.barrier();
    return ::testing::internal::GetCapturedStdout();
  }
  std::vector<std::int64_t> steps_up_to(std::int64_t last) const {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(last));
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<std::int64_t>(i) + 1;
    return steps;
  }

  std::int64_t last_ = 0;
};

TEST_F(StopAtAccuracy, EndsTheRunWithACheckpointAsIfThatStepHadBeenAskedFor) {
  const std::string told = reach();
  EXPECT_EQ(steps_with("eval_precision"), steps_up_to(last_));  // one evaluation per step
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(last_));
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr(fmt::format("at step {}, --stop-at-accuracy 0.9, after ", last_)));
  }
  const CheckpointState stopped = saved(last_);
  options_.checkpoint.train_dir = (directory_ / "asked for").string();
  options_.optimizer.max_steps = last_;
  options_.task.stop_at_accuracy = 0.0;
  EXPECT_THAT(output(), Not(HasSubstr("--stop-at-accuracy")));
  EXPECT_TRUE(saved(last_).variables == stopped.variables);
  EXPECT_EQ(saved(last_).stream_position, stopped.stream_position);
}

/// No accuracy is larger than 1, so the run must also end if the accuracy equals --stop-at-accuracy.
TEST_F(StopAtAccuracy, IsReachedByAnEqualAccuracy) {
  options_.task.stop_at_accuracy = 1.0;
  const std::string told = reach();
  EXPECT_EQ(evaluations().back().at("eval_precision"), 1.0);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr(fmt::format("at step {}, --stop-at-accuracy 1, after ", last_)));
  }
}

TEST_F(StopAtAccuracy, DoesNotChangeARunThatHasReachedItAndReportsThis) {
  reach();
  const std::size_t entries = entry_count(train_dir());
  const std::string told = output();
  EXPECT_EQ(entry_count(train_dir()), entries);
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr(fmt::format("nothing to do: {} holds step {}, whose evaluation reached "
                                            "--stop-at-accuracy 0.9 (--fresh starts over)\n",
                                            options_.checkpoint.train_dir, last_)));
  }
  options_.task.stop_at_accuracy = 0.0;
  output();
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(12, last_));
}

TEST_F(StopAtAccuracy, RepeatsAnEvaluationThatAKilledRunDidNotLog) {
  reach();
  const std::size_t entries = entry_count(train_dir());
  if (mpi_.rank() == 0) {
    const std::string metrics = read_text(train_dir() / "metrics.jsonl");
    write_text(train_dir() / "metrics.jsonl", metrics.substr(0, metrics.find_last_of('\n', metrics.size() - 2) + 1));
  }
  const auto written = [&] { return std::filesystem::last_write_time(checkpoint_path(train_dir(), last_)); };
  const auto before = written();
  const std::string told = output();
  EXPECT_EQ(steps_with("eval_precision"), steps_up_to(last_));
  EXPECT_THAT(list_checkpoints(train_dir()), ElementsAre(last_));
  EXPECT_TRUE(written() == before);                  // the run took no step
  EXPECT_EQ(entry_count(train_dir()), entries + 1);  // there is one new event file
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr(fmt::format("at step {}, --stop-at-accuracy", last_)));
  }
}

TEST_F(StopAtAccuracy, IsNotReachedByTheEvaluationOfOtherRecords) {
  options_.checkpoint.keep_best = false;
  reach();
  options_.data.eval_files = {(directory_ / "train").string()};
  output();
  EXPECT_EQ(evaluations().at(static_cast<std::size_t>(last_) - 1).at("eval_total"), 60);
}

TEST_F(StopAtAccuracy, IsReportedForTheLastEvaluationToo) {
  options_.data.eval_every = 0;
  const std::string told = output();
  EXPECT_THAT(steps_with("eval_precision"), ElementsAre(12));
  if (mpi_.rank() == 0) {
    EXPECT_THAT(told, HasSubstr("at step 12, --stop-at-accuracy"));
  }
}

}  // namespace
}  // namespace carillon::testing
