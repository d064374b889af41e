// RunPartsTest: fixture with the log, the checkpoints and a tower of MNIST's network on each rank.
#pragma once

#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/loop/training_log.h"
#include "tests/support/metrics.h"
#include "tests/train/run_test.h"

namespace carillon::testing {

/// Each rank has its own train directory, so that tests can check which files each rank writes.
class RunPartsTest : public RunTest {
 protected:
  RunPartsTest() {
    options_.checkpoint.train_dir = (directory_ / fmt::format("of rank {}", mpi_.rank())).string();
    options_.task.value = accuracy_task();
    if (first()) tower_.initialize(1);
    tower_.broadcast_from_first();
  }
  bool first() const { return mpi_.rank() == 0; }
  /// Returns the last line of metrics.jsonl.
  nlohmann::json last_metrics() const {
    const std::string text = read_text(train_dir() / "metrics.jsonl");
    const auto begin = text.find_last_of('\n', text.size() - 2);
    return nlohmann::json::parse(text.substr(begin == text.npos ? 0 : begin + 1));
  }
  /// The parts of a run that has the current options.
  struct Parts {
    TaskScore score;
    std::unique_ptr<DirectoryLock> lock;
    TrainingLog log;
    RunCheckpoints checkpoints;

    explicit Parts(const RunPartsTest& test)
        : score(test.options_.task.value, test.options_.task.target_score()),
          lock(lock_train_directory(test.options_.checkpoint.train_dir, test.mpi_)),
          log(test.options_, score, test.description_, test.mpi_),
          checkpoints(test.options_.checkpoint, test.options_.model, score, test.description_, test.mpi_,
                      [this](const std::string& line) { log.warn(line); }) {}
    /// Waits until the checkpoints are written, then ends the log.
    void finish(std::int64_t step, const PhaseSeconds& seconds = {}) {
      checkpoints.finish({.step = step}, ExitCode::done);
      log.finish({.position = {.step = step}, .seconds = seconds, .best_checkpoint = checkpoints.best()});
    }
  };

  RunDescription description_;
  std::unique_ptr<Communicator> communicator_ = make_communicator(mpi_, device_);
  Tower tower_{mnist_network(mnist_images()), ten_classes(), {.batch_size = 4}, device_, *communicator_};
};

}  // namespace carillon::testing
