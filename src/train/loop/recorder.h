// Recorder: what a run writes and tells: train directory, checkpoints, console, metrics, TensorBoard events.
//
// Every rank has one and makes the same calls; on rank 0 they do what they say, elsewhere nothing, except that the
// second rank of the first host counts a part of what `summarize` writes.
//
//   open_directory -> [resumed] -> open_logs -> check_space -> announce -> start_clock -> steps, evaluations, saves ->
//   finish
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "carillon/options/train_options.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"
#include "src/options/run_description.h"
#include "src/report/accuracy.h"
#include "src/step/tower.h"
#include "src/train/control/control_flags.h"
#include "src/train/loop/run_position.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// Loss of one step, averaged over the towers.
struct StepLoss {
  double cross_entropy = 0.0;
  double l2 = 0.0;
  double total() const { return cross_entropy + l2; }
};

class Recorder {
 public:
  /// What a run consists of, for `announce`.
  struct Parts {
    const Tower& tower;
    const Device& device;
    std::string_view communicator;
    int thread_count;
    const Dataset* dataset;  ///< null where nothing is trained
  };

  using Clock = std::chrono::steady_clock;

  /// References outlive the recorder. `started`: when the program did. Collective.
  Recorder(const TrainOptions& options, const RunDescription& description, const Mpi& mpi,
           Clock::time_point started = Clock::now());
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Locks the train directory and removes what killed writers have left in it. Collective. Errors: DirectoryLock's,
  /// io.
  void open_directory();
  /// Says from which checkpoint the run goes on, and which of the settings that decide its result have changed.
  void resumed(const LoadedCheckpoint& checkpoint);
  /// The run begins with --init-from, but for variables and buffers of these names.
  void began_anew(const std::vector<std::string>& names);
  /// Whether a run that ended at `step` was killed before its last evaluation was told of and, if it is the best, kept.
  /// Collective.
  bool lacks_evaluation(std::int64_t step, const Tower& tower);
  /// Whether the run whose checkpoint `resumed` was told of ended at `step`, as an evaluation had reached
  /// --stop-at-precision, and lacks nothing. Collective.
  bool reached_before(std::int64_t step, const Tower& tower);
  /// Says that the train directory holds `step` steps: as many as --max-steps asks for, or, with fewer,
  /// --stop-at-precision.
  void finished_before(std::int64_t step);
  /// Opens the logs of the steps from `first_step` on; with --fresh, clears the directory first. Collective. Errors:
  /// io.
  void open_logs(std::int64_t first_step);
  /// Looks whether there is room for the checkpoints of the steps from `first_step` on. Collective. Errors: io (not for
  /// one).
  void check_space(std::int64_t first_step, const Tower& tower);
  /// Says what runs on what, where each op is (--log-device-placement), and gives TensorBoard the graph.
  void announce(const Parts& parts);

  /// From `now` on the run is in another phase.
  void enter(Phase phase, Clock::time_point now);
  /// From here on the time of steps counts.
  void start_clock();
  /// A step was taken whose batch was waited for so long.
  void count_step(double data_wait_seconds);
  /// The result of a step came in.
  void count_result(const StepResult& result);
  /// Histograms and images of a step, when gradients are averaged and variables still old. The tower outlives the
  /// recorder. Collective.
  void summarize(std::int64_t step, const Batch& batch, const Tower& tower, Device& device);
  /// The line and the scalars of a step, as far as they are due. `rank_seconds`: see RankTimes::since_last.
  void log_step(const StepPlan& plan, const StepLoss& loss, double learning_rate,
                std::vector<double> rank_seconds = {});
  /// What steps are replayed as, once they are (--log-device-placement).
  void show_captured(const std::vector<std::string>& nodes);
  /// How far the run is.
  void show_progress(const StepResult& latest);
  /// An evaluation that took so long; the time of steps goes on without it.
  void log_evaluation(std::int64_t step, const Accuracy& precision, Clock::duration spent);
  /// Says that an evaluation reached --stop-at-precision, and when.
  void reached(std::int64_t step, const Accuracy& precision);

  /// Starts to write a checkpoint. Errors: failed (a variable is not finite).
  void save(const RunPosition& position, const Tower& tower);
  /// Starts to write best.ckpt.h5, after an evaluation of the same step, if none before had that precision. Errors: as
  /// save.
  void keep_if_best(const RunPosition& position, const Accuracy& precision, const Tower& tower);
  /// What this rank asks for, after each step: rank 0 looks at its clocks, and at what has become of the last
  /// checkpoints.
  ControlFlags requests();
  /// Waits for the last checkpoint and tells how the run went and ended. `rank_work`: see RunSummary. Collective.
  /// Errors: io, with ExitCode::io that of the checkpoints that kept failing.
  void finish(const RunPosition& position, ExitCode code, std::vector<double> rank_work = {});

 private:
  /// What rank 0 finds, on all. Collective. Errors: what it throws.
  bool first_finds(const std::function<bool()>& look) const;

  struct First;
  const Mpi& mpi_;
  std::unique_ptr<First> first_;  // on rank 0 only
};

}  // namespace carillon
