// RunLog: the logs of a run, which rank 0 writes. The logs are console lines, metrics.jsonl, TensorBoard events, and
// the table at the end of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "carillon/graph/graph.h"
#include "carillon/graph/parameters.h"
#include "carillon/tasks/metric.h"
#include "src/report/console.h"
#include "src/report/metrics.h"
#include "src/report/tensorboard.h"
#include "src/step/drivers/driver.h"

namespace carillon {

/// The wall time of a run by phase.
struct PhaseSeconds {
  double start = 0.0;        ///< time from the program's start to the first step or evaluation
  double data = 0.0;         ///< time in which steps wait for records
  double training = 0.0;     ///< all other time in steps
  double evaluation = 0.0;   ///< time of the evaluations during the training and at its end
  double checkpoints = 0.0;  ///< time for copying the state and waiting for writes; most of the writing happens during
                             ///< steps
  double total() const { return start + data + training + evaluation + checkpoints; }
};

/// Returns, for example, "reached accuracy 0.9840 (9840/10000) at step 2400, --stop-at-accuracy 0.98, after 34.21 s:
/// start 0.40 s, data 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s".
std::string target_line(std::int64_t step, const Score& score, double target, const PhaseSeconds& seconds);

/// Returns, for example, "ended by --patience 3 at step 2400: no later evaluation was better than accuracy 0.9707
/// (9707/10000) at step 900".
std::string patience_line(std::int64_t step, std::int64_t patience, const std::optional<StepScore>& best);

/// Returns, for example, "best checkpoint runs/mnist/best.ckpt.h5: accuracy 0.9840 (9840/10000) at step 2400".
std::string best_checkpoint_line(const std::string& path, const StepScore& best);

/// The table that a run prints at its end: its steps, best score, and wall time by phase.
struct RunSummary {
  std::int64_t first_step = 0, last_step = 0;  ///< the run took the steps [first_step, last_step)
  std::int64_t global_batch = 0;
  /// The evaluation of the best checkpoint. If there is no best checkpoint, this is the best evaluation of this run; if
  /// several evaluations are equally good, it is the first of them.
  std::optional<StepScore> best;
  PhaseSeconds seconds;
  std::vector<double> rank_work;  ///< [rank] seconds of the rank's work in steps, without waiting; empty: unknown
};

/// A run of fewer seconds than this prints no table at its end.
inline constexpr double min_summary_seconds = 10.0;

/// Returns a table of up to 11 lines. Returns an empty text if the run was shorter than `min_seconds`.
std::vector<std::string> summary_lines(const RunSummary& summary, double min_seconds = min_summary_seconds);

/// One logged step. The seconds are means over the steps since the previous logged step.
struct StepRecord {
  StepResult result;
  std::chrono::system_clock::time_point wall_time = {};  ///< time at which the step ended
  double learning_rate = 0.0;
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double allreduce_seconds = 0.0;
  /// [rank] seconds of the rank's work in a step, without waiting. Empty: unknown.
  std::vector<double> rank_seconds = {};
  std::int64_t global_batch = 0;
  int tower_count = 1;
};

struct RunLogSettings {
  bool names_layers = false;                   ///< use the TensorBoard tags of SummaryStyle::layers
  std::string loss_name;                       ///< Task::loss_name
  bool prints_l2_apart = false;                ///< the console shows the task's loss and, separately, the L2 loss
  bool prints_gradient_norm = false;           ///< the console also shows the norm of the gradient
  std::int64_t first_step = 0, last_step = 0;  ///< the run takes the steps [first_step, last_step)
};

class RunLog {
 public:
  RunLog(const std::filesystem::path& train_dir, const RunLogSettings& settings);

  Console& console() { return console_; }
  /// Logs the graph for TensorBoard. The graph shows the network, its variables, the loss, the gradients, the averaging
  /// over `tower_count` ranks, and the update by `rule`.
  void graph(const Graph& graph, const std::string& device, const std::string& rule, int tower_count);
  /// Logs the settings as a text in TensorBoard.
  void settings(std::int64_t step, const std::vector<Field>& fields);
  void step(const StepRecord& record);
  /// Writes the line of a step to metrics.jsonl without times, because an earlier run computed the step.
  void untimed_step(const StepResult& result, double learning_rate);
  /// `seconds`: duration of the evaluation.
  void evaluation(std::int64_t step, const Metric& metric, double seconds = 0.0);
  /// Writes the number of records of a head fit to metrics.jsonl.
  void head_fit(std::int64_t step, std::int64_t records) {
    metrics_.write({{"step", step}, {"head_fit_records", records}});
  }
  /// Logs the new end of a run with --time-budget: writes the point to metrics.jsonl and updates the progress output.
  void pace(const PacePoint& point);

  /// Logs the variables before the update, and their gradients (averaged, with the L2 part).
  void parameters(std::int64_t step, const std::vector<ParameterSpec>& specs, const ParameterHistograms& histograms);
  void layers(std::int64_t step, const LayerSummary& summary);
  void scalars(const StepRecord& record);

 private:
  std::string loss_name_;
  bool names_layers_, prints_l2_apart_, prints_gradient_norm_;
  Console console_;
  MetricsWriter metrics_;
  EventWriter events_;
};

}  // namespace carillon
