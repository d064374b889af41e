// TrainingLog: the console lines, metrics and TensorBoard events of a run.
//
// Every rank has a log and makes the same calls. Only rank 0 writes. The second rank of the first host computes a part
// of the histograms that `summarize` writes. On all other ranks the calls do nothing.
//
//   open -> announce -> start_clock -> steps and evaluations -> finish
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "src/cli/options/run_description.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/run_log.h"
#include "src/step/tower.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

class TrainingLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// The parts of a run that `announce` needs.
  struct Parts {
    const Tower& tower;
    const Device& device;
    std::string_view communicator;
    int thread_count;
    const Dataset* dataset;   ///< null: there is no training data (--max-steps 0)
    bool is_time_up = false;  ///< true: --time-limit leaves only the time for one step
  };

  /// The facts about the end of a run that `finish` needs.
  struct End {
    RunPosition position;
    ExitCode code = ExitCode::done;
    PhaseSeconds seconds = {};
    std::vector<double> rank_work = {};             ///< see RunSummary::rank_work
    std::optional<StepScore> best_checkpoint = {};  ///< nullopt: the run keeps no best checkpoint
    std::string_view stopped_by = "a signal";       ///< only with ExitCode::stopped
  };

  /// The referenced objects outlive the log. Collective.
  TrainingLog(const TrainOptions& options, const TaskScore& score, const RunDescription& description, const Mpi& mpi);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  /// Opens the logs in the train directory, which must exist, for the steps from `first_step` on. With --fresh, first
  /// removes the files of earlier runs. With --resume best, first removes the checkpoints of steps after `first_step`.
  /// If the run belongs to the next plan, makes the next plan the plan. Collective. Errors: io; see
  /// save_best_as_checkpoint.
  void open(std::int64_t first_step);
  /// If metrics.jsonl has no line for the last step before this run, adds this line without times. The line is missing
  /// if rank 0 ended before it logged the step. Requires `open`.
  void complete(const StepResult& last, double learning_rate);
  /// Prints model and device. With --log-device-placement, also prints the device of each op. Logs the graph for
  /// TensorBoard.
  void announce(const Parts& parts);
  /// Prints a line on stdout. Requires `open`.
  void print(const std::string& line);
  /// Prints a warning.
  void warn(const std::string& line);

  /// Starts the measurement of step times.
  void start_clock();
  /// Counts a step. `data_wait_seconds`: time that the step waited for its batch.
  void count_step(double data_wait_seconds);
  /// Counts the result of a step.
  void count_result(const StepResult& result);
  /// Logs histograms and images of a step. Call it after the averaging of gradients and before the update. The norm of
  /// the gradient, which the histograms contain, is logged with the step. The tower outlives the log. Collective.
  void summarize(std::int64_t step, const Batch& batch, const Tower& tower, Device& device);
  /// Logs the line and the scalars of a step if the plan requests them. `rank_seconds`: see RankTimes::since_last.
  void log_step(const StepPlan& plan, const StepResult& result, double learning_rate,
                std::vector<double> rank_seconds = {});
  /// Updates the progress bar. Prints the nodes of the captured step once (--log-device-placement).
  void show_progress(const StepResult& latest, const std::vector<std::string>& captured_nodes);
  /// Logs a new end of a run with --time-budget.
  void log_pace(const PacePoint& point);
  /// Logs the number of records of a head fit before `step`.
  void log_head_fit(std::int64_t step, std::int64_t records);
  /// Logs an evaluation. `spent`, the duration of the evaluation, does not count as step time.
  void log_evaluation(std::int64_t step, const Metric& metric, Clock::duration spent);

  /// Prints the summary, the best checkpoint and the end of the run. Collective.
  void finish(const End& end);

 private:
  struct Writer;
  const Mpi& mpi_;
  std::unique_ptr<Writer> writer_;  // on rank 0 only
};

/// Returns a line that states the smallest cross-entropy that is possible with smoothed labels, because users may
/// expect the cross-entropy to reach 0. `smoothing`: above 0 and at most 1.
std::string label_smoothing_line(double smoothing, std::int64_t classes);

}  // namespace carillon
