// Recorder: writes everything that a run writes: checkpoints, console lines, metrics.jsonl, TensorBoard events.
//
// Every rank has a recorder and makes the same calls. Only rank 0 writes; on other ranks the calls do nothing, except
// that the second rank of the first host computes a part of the histograms that `summarize` writes.
//
//   open_directory -> [resumed] -> check_bounds -> open_logs -> check_space -> announce -> start_clock -> steps,
//   evaluations, saves -> finish
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/tasks/task.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/run_description.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"
#include "src/report/metrics.h"
#include "src/step/tower.h"
#include "src/train/control/control_flags.h"
#include "src/train/loop/run_position.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// Loss of one step, averaged over the ranks, and the norm of its gradient.
struct StepLoss {
  double task = 0.0;  ///< the task's, without L2
  double l2 = 0.0;
  std::optional<double> gradient_norm = {};  ///< as StepResult::gradient_norm
  double total() const { return task + l2; }
};

/// Why a run has ended.
enum class EndCause {
  steps,    ///< --max-steps
  target,   ///< --stop-at-accuracy
  patience  ///< --patience
};

class Recorder {
 public:
  /// The parts of a run, for `announce`.
  struct Parts {
    const Tower& tower;
    const Device& device;
    std::string_view communicator;
    int thread_count;
    const Dataset* dataset;  ///< null: no training data (--max-steps 0)
  };

  using Clock = std::chrono::steady_clock;

  /// The references outlive the recorder. `started`: start of the program. Collective.
  Recorder(const TrainOptions& options, const Task& task, const RunDescription& description, const Mpi& mpi,
           Clock::time_point started = Clock::now());
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Locks the train directory and removes the temporary files of killed writers. Collective. Errors: as DirectoryLock,
  /// io.
  void open_directory();
  /// Prints from which checkpoint the run resumes, and which of the settings that decide its result have changed.
  void resumed(const LoadedCheckpoint& checkpoint);
  /// On rank 0. Errors: usage (the checkpoint to resume is of another task).
  void require_same_task(const LoadedCheckpoint& checkpoint) const;
  /// Prints that the run starts from --init-from, without the arrays of the names `excluded`. Warns if that checkpoint
  /// was trained with another --preprocessing.
  void initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded);
  /// Whether a run that ended at `step` was killed before it logged its last evaluation or, if that is the best, kept
  /// its checkpoint. Collective.
  bool lacks_evaluation(std::int64_t step, const Tower& tower);
  /// Whether the run of the checkpoint of `resumed` ended at `step` because an evaluation reached the target, and its
  /// logs and checkpoints are complete. Collective.
  bool reached_before(std::int64_t step, const Tower& tower);
  /// The logged evaluations of the resumed run up to `last_step`, in their order. Other ranks than 0 get only the
  /// values of the scores. Empty if the run was evaluated on other records. Collective.
  std::vector<StepScore> evaluations_up_to(std::int64_t last_step) const;
  /// Prints that there is nothing to do: the train directory holds `step` steps, at which the run ended.
  void finished_before(std::int64_t step, EndCause end);
  /// Checks that programs will load all checkpoints of the run. Collective. Errors: as RunCheckpoints::check_bounds.
  void check_bounds(const RunPosition& start, const Tower& tower);
  /// Opens the logs for the steps from `first_step` on. With --fresh, clears the directory first. Collective. Errors:
  /// io.
  void open_logs(std::int64_t first_step);
  /// Warns if the disk lacks space for the checkpoints of the steps from `first_step` on. Collective. Errors: io (no
  /// space for one checkpoint).
  void check_space(std::int64_t first_step, const Tower& tower);
  /// Prints model and device, and the device of each op (--log-device-placement); logs the graph for TensorBoard.
  void announce(const Parts& parts);

  /// The run enters a phase at `now`.
  void enter(Phase phase, Clock::time_point now);
  /// Starts the measurement of step times.
  void start_clock();
  /// Counts a step that waited so long for its batch.
  void count_step(double data_wait_seconds);
  /// Counts the result of a step.
  void count_result(const StepResult& result);
  /// Logs histograms and images of a step, after the averaging of gradients and before the update. The norm of the
  /// gradient, which the histograms contain, is logged with the step. The tower outlives the recorder. Collective.
  void summarize(std::int64_t step, const Batch& batch, const Tower& tower, Device& device);
  /// Logs the line and the scalars of a step if the plan asks for them. `rank_seconds`: see RankTimes::since_last.
  void log_step(const StepPlan& plan, const StepLoss& loss, double learning_rate,
                std::vector<double> rank_seconds = {});
  /// Prints the nodes of the captured step once (--log-device-placement).
  void show_captured(const std::vector<std::string>& nodes);
  /// Updates the progress bar.
  void show_progress(const StepResult& latest);
  /// Logs an evaluation that took `spent`, which does not count as step time.
  void log_evaluation(std::int64_t step, const Metric& metric, Clock::duration spent);
  /// Prints that an evaluation reached the target, and when.
  void reached(std::int64_t step, const Metric& metric);
  /// Prints that --patience ended the run. `best`: the best evaluation.
  void lost_patience(std::int64_t step, const std::optional<StepScore>& best);

  /// Starts to write a checkpoint. Errors: failed (a variable is not finite).
  void save(const RunPosition& position, const Tower& tower);
  /// On rank 0, after open_directory: as CheckpointWriter::newest_complete.
  std::int64_t newest_complete_checkpoint() const;
  /// Starts to write best.ckpt.h5 if the evaluation of this step is better than all before. Errors: as save.
  void keep_if_best(const RunPosition& position, const Metric& metric, const Tower& tower);
  /// The requests of this rank after a step. Rank 0 checks at `now` whether a checkpoint is due, whether time is up,
  /// and whether checkpoints failed.
  ControlFlags requests(Clock::time_point now = Clock::now());
  /// Waits for the last checkpoint and prints the summary, the best checkpoint and the end of the run. `rank_work`: see
  /// RunSummary. With ExitCode::io, throws the error of the checkpoints that kept failing. Collective. Errors: io.
  void finish(const RunPosition& position, ExitCode code, std::vector<double> rank_work = {});

 private:
  /// The result of `condition` on rank 0, on all ranks. Collective. Errors: those of `condition`.
  bool first_finds(const std::function<bool()>& condition) const;

  struct First;
  const Mpi& mpi_;
  std::unique_ptr<First> first_;  // on rank 0 only
};

}  // namespace carillon
