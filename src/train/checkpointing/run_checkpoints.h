// RunCheckpoints: writes the checkpoints of a run on rank 0: at steps, at times, and of the best evaluation.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "src/cli/options/run_description.h"
#include "src/report/metrics.h"
#include "src/step/tower.h"
#include "src/train/checkpointing/checkpoint_saver.h"
#include "src/train/control/control_flags.h"
#include "src/train/evaluation/task_score.h"
#include "src/train/loop/run_position.h"

namespace carillon {

class RunCheckpoints {
 public:
  using Clock = std::chrono::steady_clock;

  /// `warn` is called with one line per warning. The references outlive this.
  RunCheckpoints(const CheckpointOptions& options, const ModelOptions& model, const TaskScore& task_score,
                 const RunDescription& description, std::function<void(const std::string&)> warn);

  /// Checks that programs will load all checkpoints of a run from `start` to `max_steps`. Errors: usage; data (the
  /// stream position of the resumed checkpoint is impossible).
  void check_bounds(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                    const Tower& tower) const;
  /// As Recorder's. `steps`: to be trained. `evaluates`: the run has evaluations.
  void check_space(std::int64_t steps, bool evaluates, const Tower& tower) const;
  /// As the functions of Recorder with these names.
  void save(const RunPosition& position, const Tower& tower);
  void keep_if_best(const RunPosition& position, const Score& score, const Tower& tower);
  /// Whether keep_if_best would write nothing.
  bool has_kept(const Score& score, const Tower& tower);
  /// Step and score of the best checkpoint; none: there is none, or the run has not evaluated yet.
  const std::optional<StepScore>& best() const { return best_; }
  /// Polls the writes. Returns the requests of these and of the time since the last checkpoint, at `now`.
  ControlFlags poll(Clock::time_point now);
  /// As CheckpointWriter::newest_complete, without the best evaluation's.
  std::int64_t newest_complete() const { return of_steps_.newest_complete(); }
  /// Starts the time since the last checkpoint.
  void start_clock() { saved_at_ = Clock::now(); }
  /// Waits until all checkpoints are on disk. With ExitCode::io, throws the error of the checkpoints that kept failing.
  /// Errors: io.
  void finish(const RunPosition& position, ExitCode code);

 private:
  CheckpointState state(const RunPosition& position, const Tower& tower, std::string options_json) const;
  /// The error of the checkpoints that kept failing; none: they did not.
  const std::optional<Error>& given_up() const;
  bool is_due(Clock::time_point now) const;

  const CheckpointOptions& options_;
  const ModelOptions& model_;
  const TaskScore& task_score_;
  const RunDescription& description_;
  std::function<void(const std::string&)> warn_;
  CheckpointSaver of_steps_, of_best_;
  std::optional<StepScore> best_;  ///< of the best checkpoint, from the first evaluation on
  bool has_read_best_ = false;     ///< the best checkpoint of earlier runs
  Clock::time_point saved_at_ = Clock::now();
};

}  // namespace carillon
