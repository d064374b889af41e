// Tests whole trainings with --sampling balanced and with --class-weights.
#include <gtest/gtest.h>

#include "src/tasks/classification.h"
#include "tests/support/float_arrays.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

/// The dataset has 49 records of class 0, 10 of class 1, and 1 of class 2.
class BalancedTraining : public RunTest {
 protected:
  BalancedTraining() {
    if (mpi_.rank() == 0) {
      std::string records;
      for (int i = 0; i < 60; ++i) append_record(records, mnist_example(i, i == 17 ? 2 : i % 6 == 0 ? 1 : 0));
      write_text(directory_ / "train", records);
    }
    mpi_.barrier();
    options_.data.sampling = Sampling::balanced;
  }
  CheckpointState trained(const std::string& name, const TrainOptions& options) {
    TrainOptions named = options;
    named.checkpoint.train_dir = (directory_ / name).string();
    train(named);
    mpi_.barrier();
    return read_checkpoint(checkpoint_path(named.checkpoint.train_dir, named.optimizer.max_steps));
  }
};

TEST_F(BalancedTraining, IsTheSameWithRecordsInMemoryAndReadAhead) {
  const CheckpointState in_memory = trained("memory", options_);
  TrainOptions other = options_;
  other.data.cache = CacheMode::none;
  EXPECT_TRUE(trained("ahead", other).variables == in_memory.variables);
  other.data.skip_damaged = true;
  EXPECT_TRUE(trained("skipping", other).variables == in_memory.variables);
  other = options_;
  other.data.sampling = Sampling::uniform;
  EXPECT_FALSE(trained("uniform", other).variables == in_memory.variables);
}

TEST_F(BalancedTraining, ResumesLikeAnUninterruptedRun) {
  const CheckpointState expected = trained("once", options_);
  for (const std::int64_t stop : {1, 5, 11}) {
    TrainOptions first = options_;
    first.optimizer.max_steps = stop;
    const std::string name = fmt::format("stopped at {}", stop);
    trained(name, first);
    EXPECT_TRUE(trained(name, options_).variables == expected.variables) << stop;
  }
}

/// With --skip-damaged, a run with a damaged record must equal a run on a dataset without this record.
TEST_F(BalancedTraining, NeverDrawsARecordThatIsDamagedFromTheStart) {
  if (mpi_.rank() == 0) {
    std::string records = read_text(directory_ / "train");
    const std::size_t record_bytes = records.size() / 60, first = 17 * record_bytes;
    write_text(directory_ / "without", std::string(records).erase(first, record_bytes));
    records[first + 100] ^= 1;
    write_text(directory_ / "damaged", records);
  }
  mpi_.barrier();
  options_.data.files = {(directory_ / "damaged").string()};
  EXPECT_EQ(failure(options_).code, ExitCode::data);
  options_.data.skip_damaged = true;
  const CheckpointState damaged = trained("skipped", options_);
  options_.data.files = {(directory_ / "without").string()};
  EXPECT_TRUE(damaged.variables == trained("whole", options_).variables);
}

TEST_F(BalancedTraining, WeightsOfTheRecordsReachTheLoss) {
  options_.data.sampling = Sampling::uniform;
  options_.task.value = classification_task({.classes = 10, .balances_weights = true});
  const CheckpointState balanced = trained("balanced", options_);
  // Passes the weights that "balanced" selects as explicit numbers. The weights of classes without records have no
  // effect.
  options_.task.value =
      classification_task({.classes = 10, .class_weights = {60.0 / 147, 60.0 / 30, 60.0 / 3, 1, 2, 3, 4, 5, 6, 7}});
  const CheckpointState given = trained("given", options_);
  for (std::size_t i = 0; i < given.variables.size(); ++i) {
    expect_near(given.variables[i].values, balanced.variables[i].values, 1e-5);
  }
  options_.task.value = classification_task({.classes = 10});
  EXPECT_FALSE(trained("plain", options_).variables == balanced.variables);
}

}  // namespace
}  // namespace carillon::testing
