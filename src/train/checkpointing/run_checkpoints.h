// RunCheckpoints: the checkpoints of a run in its train directory: at steps, at times, and of the best evaluation.
//
// Every rank makes the same calls. Only rank 0 writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/directory_lock.h"
#include "src/cli/options/run_description.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/metrics.h"
#include "src/step/tower.h"
#include "src/train/control/agreement.h"
#include "src/train/evaluation/task_score.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// On rank 0: locks the train directory and removes the temporary files of killed writers. Null on other ranks.
/// Collective. Errors: as DirectoryLock, io.
std::unique_ptr<DirectoryLock> lock_train_directory(const std::filesystem::path& train_dir, const Mpi& mpi);

/// Removes checkpoints, metrics.jsonl and event files, and nothing else. Errors: io.
void remove_run_files(const std::filesystem::path& train_dir);

struct SpaceNeeded {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t count = 1;  ///< checkpoints in addition to those in the directory
};

/// The least size of a checkpoint with `floats` float32 numbers.
inline std::uint64_t checkpoint_bytes(std::uint64_t floats) { return floats * sizeof(float); }

/// Returns a warning if there is no space for `count` checkpoints; an empty text if there is space or if the file
/// system does not report its free space. Quotas are ignored. Errors: io (no space for one checkpoint).
std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed);

/// Writes checkpoints in the background and retries failed writes.
///
/// A failed write causes a warning. The saver writes the same state again after 1 s, then 2 s, 4 s, up to a minute,
/// unless a newer state replaces it. After more than `max_failures` failures in a row it gives up.
class CheckpointSaver {
 public:
  using Clock = std::chrono::steady_clock;
  struct Settings {
    std::int64_t max_failures;                     ///< in a row
    std::function<void(const std::string&)> warn;  ///< hears one line per warning
  };

  CheckpointSaver(std::unique_ptr<CheckpointWriter> writer, Settings settings);

  /// Waits for the previous write and starts to write `state`.
  void start(CheckpointState state);
  /// If the last write is done, takes its result. If a retry of a failed write is due, starts it.
  void poll(Clock::time_point now = Clock::now());
  /// Whether there is a write without a result yet.
  bool is_writing() const { return is_writing_; }
  /// As CheckpointWriter::newest_complete.
  std::int64_t newest_complete() const { return writer_->newest_complete(); }
  /// The error after which the saver gave up; none: it did not.
  const std::optional<Error>& given_up() const { return given_up_; }
  /// Waits until the last state is on disk, and retries a failed write after a second. Throws the error after which it
  /// gives up.
  void finish();

 private:
  /// `max_pause`: the longest time until a failed checkpoint is written again.
  void take_result(Clock::time_point now, std::chrono::seconds max_pause);
  void start_again();

  Settings settings_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_writing_ = false;  ///< the result of a write is not taken yet
  std::int64_t failures_ = 0;
  std::optional<Error> failed_;  ///< the last write failed; it is to be retried
  std::optional<Error> given_up_;
  Clock::time_point retry_at_;
};

class RunCheckpoints {
 public:
  using Clock = std::chrono::steady_clock;

  /// `warn` is called with one line per warning. The references outlive this. Collective.
  RunCheckpoints(const CheckpointOptions& options, const ModelOptions& model, const TaskScore& task_score,
                 const RunDescription& description, const Mpi& mpi, std::function<void(const std::string&)> warn);

  /// Checks that programs will load all checkpoints of a run from `start` to `max_steps`. Collective. Errors: usage;
  /// data (the stream position of the resumed checkpoint is impossible).
  void check_bounds(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                    const Tower& tower) const;
  /// Warns if the disk lacks space for the checkpoints of `steps` steps. `evaluates`: the run has evaluations.
  /// Collective. Errors: io (no space for one checkpoint).
  void check_space(std::int64_t steps, bool evaluates, const Tower& tower) const;

  /// Starts to write a checkpoint. Errors: failed (a variable is not finite).
  void save(const RunPosition& position, const Tower& tower);
  /// Starts to write best.ckpt.h5 if the evaluation of this step is better than all earlier evaluations. Errors: as
  /// save.
  void keep_if_best(const RunPosition& position, const Score& score, const Tower& tower);
  /// On rank 0: whether keep_if_best would write nothing.
  bool has_kept(const Score& score, const Tower& tower);
  /// On rank 0: step and score of the best checkpoint; nullopt if there is no best checkpoint or if the run has not
  /// evaluated yet.
  const std::optional<StepScore>& best() const { return best_; }
  /// On rank 0: as CheckpointWriter::newest_complete, ignoring best.ckpt.h5.
  std::int64_t newest_complete() const { return writers_->of_steps.newest_complete(); }
  /// Starts the time since the last checkpoint.
  void start_clock() { saved_at_ = Clock::now(); }
  /// The requests of this rank. Rank 0 polls the writes and checks at `now` whether a checkpoint is due, and whether
  /// checkpoints kept failing.
  ControlFlags poll(Clock::time_point now = Clock::now());
  /// Waits until all checkpoints are on disk. With ExitCode::io, throws the error of the checkpoints that kept failing.
  /// Collective. Errors: io.
  void finish(const RunPosition& position, ExitCode code);

 private:
  struct Writers {
    CheckpointSaver of_steps, of_best;
  };

  void check_limits(const RunPosition& start, std::int64_t max_steps, std::int64_t global_batch,
                    const Tower& tower) const;
  CheckpointState state(const RunPosition& position, const Tower& tower, std::string options_json) const;
  /// The error of the checkpoints that kept failing; none: they did not.
  const std::optional<Error>& given_up() const;
  bool is_due(Clock::time_point now) const;

  const CheckpointOptions& options_;
  const ModelOptions& model_;
  const TaskScore& task_score_;
  const RunDescription& description_;
  const Mpi& mpi_;
  std::function<void(const std::string&)> warn_;
  std::optional<Writers> writers_;  ///< on rank 0 only
  std::optional<StepScore> best_;   ///< score of the best checkpoint, from the first evaluation on
  bool has_read_best_ = false;      ///< the best checkpoint of earlier runs
  Clock::time_point saved_at_ = Clock::now();
};

}  // namespace carillon
