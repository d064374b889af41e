// The state of a training as a checkpoint stores it, its largest size, and the LastStepSaver, with which one rank saves
// it without the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/run_description.h"
#include "src/comm/stall/stall_detector.h"
#include "src/step/tower.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// Bytes that a checkpoint of `network` cannot exceed with any optimiser.
std::uint64_t max_checkpoint_bytes(const Network& network);

/// The size limit for reading checkpoints of networks that need at most `max_bytes`. It is at least 1 GiB, so that the
/// reader can also load a larger checkpoint and name its network.
constexpr std::uint64_t checkpoint_read_limit(std::uint64_t max_bytes) {
  return std::max(max_bytes, std::uint64_t{1} << 30);
}

/// The state without its arrays.
CheckpointState state_at(const RunPosition& position, const ModelOptions& model, std::string options_json);

/// Step and losses of the step before the checkpoint, if a LastStepSaver wrote it and knew them.
std::optional<StepResult> stored_result(const CheckpointState& state);

/// Errors: failed (a value is not finite; names its array).
void check_finite(const CheckpointState& state);

/// Saves the last completed step of a training on CPUs when an error ends the run. One rank saves without the other
/// ranks.
class LastStepSaver {
 public:
  /// A training that starts at `first`. The references outlive the saver.
  struct Training {
    const CheckpointOptions& options;
    const ModelOptions& model;
    const RunDescription& description;
    RunPosition first;
    std::uint64_t global_batch;  ///< samples per step
    Tower& tower;                ///< on a CPU
    const Mpi& mpi;
  };

  /// From now on, until `stop` or destruction, the stall detector saves before it ends the run.
  LastStepSaver(const Training& training, StallDetector& stall_detector);
  ~LastStepSaver() { stop(); }
  LastStepSaver(const LastStepSaver&) = delete;
  LastStepSaver& operator=(const LastStepSaver&) = delete;

  /// Disables all later saves. Call it if the state may be wrong.
  void stop();
  /// Announces that the run will now write an ordinary checkpoint of this step. Once that checkpoint is complete,
  /// `save` does not write it again. A file with this name that already exists may be damaged, and does not count.
  void expect_checkpoint(std::int64_t step);
  /// Sets the result whose losses `save` stores if they belong to the last completed step.
  void note(const StepResult& result);
  /// Writes a checkpoint of the last completed step. Does nothing after `stop`, before the first step is complete,
  /// during an update, or if the train directory does not exist on this host. If rank 0 has ended on this host, locks
  /// the directory. Returns text for the error line: "; saved step 812 in DIR/model.ckpt-812.h5", or why it is not
  /// saved. A thread other than the main thread must first call Tower::stop_updates.
  std::string save() const noexcept;

 private:
  std::string write(const RunPosition& position) const;
  /// The description of the run, with the losses of the step before `position` if they are known.
  std::string description_at(const RunPosition& position) const;

  Training training_;
  StallDetector& stall_detector_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<std::int64_t> expected_checkpoint_ = -1;
  mutable std::mutex result_mutex_;
  std::optional<StepResult> result_;  ///< the last one that is known
};

}  // namespace carillon
