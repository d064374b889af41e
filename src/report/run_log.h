// RunLog: the logs of a run, which rank 0 writes: console, metrics.jsonl, TensorBoard events.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "carillon/graph/graph.h"
#include "carillon/graph/parameters.h"
#include "carillon/report/summary_style.h"
#include "carillon/tasks/metric.h"
#include "src/report/console.h"
#include "src/report/event_writer.h"
#include "src/report/layer_summary.h"
#include "src/report/metrics.h"
#include "src/report/parameter_histograms.h"

namespace carillon {

/// One logged step. The seconds are means over the steps since the previous logged step.
struct StepRecord {
  std::int64_t step = 0;
  std::chrono::system_clock::time_point finished;  ///< when the step ended
  double loss = 0.0;                               ///< the task's plus L2
  double task_loss = 0.0;
  double learning_rate = 0.0;
  std::optional<double> gradient_norm = {};  ///< norm of the mean gradient, L2 included, before clipping; none: unknown
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double allreduce_seconds = 0.0;
  std::vector<double> rank_seconds;  ///< by rank: its own work, without waiting for others; empty: unknown
  std::int64_t global_batch = 0;
  int tower_count = 1;
};

struct RunLogSettings {
  SummaryStyle style = SummaryStyle::variables;
  std::string loss_name;                       ///< Task::loss_name
  bool prints_gradient_norm = false;           ///< also on the console
  std::int64_t first_step = 0, last_step = 0;  ///< steps [first_step, last_step) follow
};

class RunLog {
 public:
  RunLog(const std::filesystem::path& train_dir, const RunLogSettings& settings);

  Console& console() { return console_; }
  /// Logs the graph: network, variables and loss, then the rest of a step: gradients, averaging over `tower_count`
  /// ranks, the update by `rule`.
  void graph(const Graph& graph, const std::string& device, const std::string& rule, int tower_count);
  /// Logs the settings as a text in TensorBoard.
  void settings(std::int64_t step, const std::vector<Field>& fields);
  void step(const StepRecord& record);
  void evaluation(std::int64_t step, const Metric& metric);

  /// Logs variables and their gradients (averaged, with the L2 part) before the update.
  void parameters(std::int64_t step, const std::vector<ParameterSpec>& specs, const ParameterHistograms& histograms);
  void layers(std::int64_t step, const LayerSummary& summary);
  void scalars(const StepRecord& record);

 private:
  SummaryStyle style_;
  std::string loss_name_;
  bool prints_gradient_norm_;
  Console console_;
  MetricsWriter metrics_;
  EventWriter events_;
};

}  // namespace carillon
