// RunLog: everything a run tells about itself, on rank 0: console, metrics.jsonl, TensorBoard events.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "carillon/graph/graph.h"
#include "carillon/graph/parameters.h"
#include "carillon/report/summary_style.h"
#include "src/report/accuracy.h"
#include "src/report/console.h"
#include "src/report/event_writer.h"
#include "src/report/layer_summary.h"
#include "src/report/metrics.h"
#include "src/report/parameter_histograms.h"

namespace carillon {

/// One logged step; the seconds are means over the steps since the last logged one.
struct StepRecord {
  std::int64_t step = 0;
  std::chrono::system_clock::time_point finished;  ///< when it was over
  double loss = 0.0;                               ///< the task's plus L2
  double task_loss = 0.0;                          ///< without L2
  std::string task_loss_name;                      ///< Task::loss_name, its key in the logs
  double learning_rate = 0.0;
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double allreduce_seconds = 0.0;
  std::vector<double> rank_seconds;  ///< by rank: of its own work, without what it waits for others; or nothing
  std::int64_t global_batch = 0;
  int tower_count = 1;
};

class RunLog {
 public:
  /// Steps from `first_step` to before `last_step` will follow.
  RunLog(const std::filesystem::path& train_dir, SummaryStyle style, std::int64_t first_step, std::int64_t last_step);

  Console& console() { return console_; }
  /// The network, its variables and loss, and what a step does behind them: gradients, averaging over `tower_count`
  /// towers, the update by `rule`.
  void graph(const Graph& graph, const std::string& device, const std::string& rule, int tower_count);
  /// The settings, as a text in TensorBoard.
  void settings(std::int64_t step, const std::vector<Field>& fields);
  void step(const StepRecord& record);
  void evaluation(std::int64_t step, const Accuracy& precision);

  /// Variables and their gradients (averaged, L2 part included), before the update.
  void parameters(std::int64_t step, const std::vector<ParameterSpec>& specs, const ParameterHistograms& histograms);
  void layers(std::int64_t step, const LayerSummary& summary);
  void scalars(const StepRecord& record);

 private:
  SummaryStyle style_;
  Console console_;
  MetricsWriter metrics_;
  EventWriter events_;
};

}  // namespace carillon
