// The checkpoints of a run in its train directory. RunCheckpoints writes checkpoints at regular steps, at regular
// times, and after the best evaluation. Every rank makes the same calls, but only rank 0 writes. LastStepSaver saves
// the last step if an error ends the run.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/directory_lock.h"
#include "src/cli/options/run_description.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"
#include "src/report/metrics.h"
#include "src/step/tower.h"
#include "src/train/control/agreement.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// On rank 0: locks the train directory and removes the temporary files of killed writers. Returns null on other ranks.
/// Collective. Errors: see DirectoryLock; io.
std::unique_ptr<DirectoryLock> lock_train_directory(const std::filesystem::path& train_dir, const Mpi& mpi);

/// The files of the plan of `carillon train` and its settings. They belong to the checkpoints of the train directory.
inline constexpr const char *plan_name = "plan.json", *plan_settings_name = "plan.cfg";
/// The plan and the settings for `carillon train --fresh` and `--more`. They become the plan and its settings after
/// image_train has checked everything (begin_next_plan).
inline constexpr const char *next_plan_name = "next-plan.json", *next_plan_settings_name = "next-plan.cfg";

/// Removes checkpoints, metrics.jsonl, event files and the plan, and nothing else. Errors: io.
void remove_run_files(const std::filesystem::path& train_dir);

/// Replaces the plan by the next plan. Does nothing if there is no next plan. Errors: io.
void begin_next_plan(const std::filesystem::path& train_dir);

/// Writes the state of best.ckpt.h5 as the checkpoint of `step`. Does nothing if best.ckpt.h5 is missing or has another
/// step. Errors: io, data (best.ckpt.h5 is damaged).
void save_best_as_checkpoint(const std::filesystem::path& train_dir, std::int64_t step);

/// Removes the checkpoints of later steps than `step`. Errors: io.
void remove_later_checkpoints(const std::filesystem::path& train_dir, std::int64_t step);

struct SpaceNeeded {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t count = 1;         ///< number of checkpoints in addition to the checkpoints in the directory
  std::uint64_t freed_bytes = 0;  ///< size of the files that will be removed first
};

/// Returns the smallest possible size of a checkpoint with `floats` float32 numbers.
inline std::uint64_t checkpoint_bytes(std::uint64_t floats) { return floats * sizeof(float); }

/// Returns a warning if the file system of `directory` has no space for `needed.count` checkpoints. Returns an empty
/// text if there is space, or if the file system does not report its free space. Ignores quotas. Errors: io (there is
/// no space for one checkpoint).
std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed);

/// Returns an upper limit for the size of a checkpoint of `network` with any optimiser, in bytes.
std::uint64_t max_checkpoint_bytes(const Network& network);

/// Returns the size limit for reading the checkpoints of a network, which need at most `max_bytes`. The limit is at
/// least 1 GiB, so that the reader can also load the larger checkpoint of another network and name that network in the
/// error.
constexpr std::uint64_t checkpoint_read_limit(std::uint64_t max_bytes) {
  return std::max(max_bytes, std::uint64_t{1} << 30);
}

/// Returns step and losses of the step before the checkpoint. Returns nullopt if no LastStepSaver wrote the checkpoint,
/// or if the LastStepSaver did not know the losses.
std::optional<StepResult> stored_result(const CheckpointState& state);

class RunCheckpoints {
 public:
  using Clock = std::chrono::steady_clock;

  /// Calls `warn` with one line per warning. The referenced objects outlive this object. Collective.
  RunCheckpoints(const CheckpointOptions& options, const ModelOptions& model, const TaskScore& task_score,
                 const RunDescription& description, const Mpi& mpi, std::function<void(const std::string&)> warn);

  /// Checks that programs will be able to load every checkpoint of a run from `start` to `max_steps`. Collective.
  /// Errors: usage; data (the stream position of the resumed checkpoint is impossible).
  void check_bounds(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                    const Tower& tower) const;
  /// Warns if the disk lacks space for the checkpoints of `steps` steps. `evaluates`: the run has evaluations.
  /// Collective. Errors: io (there is no space for one checkpoint).
  void check_space(std::int64_t steps, bool evaluates, const Tower& tower) const;

  /// Starts to write a checkpoint. Errors: failed (a variable is not finite).
  void save(const RunPosition& position, const Tower& tower);
  /// Starts to write best.ckpt.h5 if the evaluation of this step is better than all earlier evaluations. Errors: see
  /// save.
  void keep_if_best(const RunPosition& position, const Score& score, const Tower& tower);
  /// On rank 0: returns true if keep_if_best would write nothing. The reason is that the run keeps no best checkpoint,
  /// or that the stored best checkpoint is at least as good.
  bool has_kept(const Score& score, const Tower& tower);
  /// On rank 0: returns step and score of the best checkpoint. Returns nullopt if there is no best checkpoint, or if
  /// the run has not evaluated yet.
  const std::optional<StepScore>& best() const { return best_; }
  /// On rank 0: returns CheckpointWriter::newest_complete without regard to best.ckpt.h5.
  std::int64_t newest_complete() const { return writers_->of_steps.newest_complete(); }
  /// Sets the time of the last checkpoint to now, for --checkpoint-every-seconds.
  void start_clock() { saved_at_ = Clock::now(); }
  /// Returns the requests of this rank. Rank 0 checks the writes in progress. If a checkpoint is due at `now`, rank 0
  /// requests the checkpoint. If checkpoints kept failing, rank 0 requests the end of the run.
  ControlFlags poll(Clock::time_point now = Clock::now());
  /// Waits until all checkpoints are on disk. If `code` is ExitCode::io, checkpoints kept failing, and the function
  /// throws their error. Collective. Errors: io.
  void finish(const RunPosition& position, ExitCode code);

 private:
  struct Writers {
    CheckpointWriter of_steps, of_best;
  };

  void check_limits(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                    const Tower& tower) const;
  CheckpointState state(const RunPosition& position, const Tower& tower, std::string options_json) const;
  /// Returns the error of the checkpoints if they kept failing, otherwise nullopt.
  const std::optional<Error>& given_up() const;
  bool is_due(Clock::time_point now) const;

  const CheckpointOptions& options_;
  const ModelOptions& model_;
  const TaskScore& task_score_;
  const RunDescription& description_;
  const Mpi& mpi_;
  std::function<void(const std::string&)> warn_;
  std::optional<Writers> writers_;  ///< exists only on rank 0
  std::optional<StepScore> best_;   ///< score of the best checkpoint; set at the first evaluation
  bool has_read_best_ = false;      ///< true once `best_` has been read from the best checkpoint of earlier runs
  Clock::time_point saved_at_ = Clock::now();
};

/// Saves the last completed step of a training on CPUs when an error ends the run. One rank saves without the other
/// ranks.
class LastStepSaver {
 public:
  /// Prepares to save a training that starts at `first`. The referenced objects outlive the saver.
  struct Training {
    const CheckpointOptions& options;
    const ModelOptions& model;
    const RunDescription& description;
    RunPosition first;
    std::uint64_t global_batch;  ///< samples per step
    Tower& tower;                ///< a tower on a CPU
    const Mpi& mpi;
  };

  /// From this call until `stop` or destruction, the stall detector saves before it ends the run.
  LastStepSaver(const Training& training, StallDetector& stall_detector);
  ~LastStepSaver() { stop(); }
  LastStepSaver(const LastStepSaver&) = delete;
  LastStepSaver& operator=(const LastStepSaver&) = delete;

  /// Disables all later saves. Call it if the variables may be wrong.
  void stop();
  /// Announces that the run will now write an ordinary checkpoint of this step. After that checkpoint is complete,
  /// `save` does not write it again. If a file with the checkpoint's name already exists when this function is called,
  /// `save` writes the checkpoint, because the existing file may be old and damaged.
  void expect_checkpoint(std::int64_t step);
  /// Sets the last known result. `save` stores the losses of the result if it belongs to the last completed step.
  void note(const StepResult& result);
  /// Writes a checkpoint of the last completed step. Does nothing after `stop`, before the first step is complete,
  /// during an update, or if the train directory does not exist on this host. Locks the directory if the process of
  /// rank 0 ran on this host and has ended. Returns text for the error line: "; saved step 812 in
  /// DIR/model.ckpt-812.h5" or "; step 812 is not saved: CAUSE". Returns an empty text if it does nothing. A thread
  /// other than the main thread must first call Tower::stop_updates.
  std::string save() const noexcept;

 private:
  std::string write(const RunPosition& position) const;
  /// Returns the description of the run. If the losses of the step before `position` are known, adds them.
  std::string description_at(const RunPosition& position) const;

  Training training_;
  StallDetector& stall_detector_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<std::int64_t> expected_checkpoint_ = -1;
  mutable std::mutex result_mutex_;
  std::optional<StepResult> result_;  ///< the last known result
};

}  // namespace carillon
