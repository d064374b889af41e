// RunSummary: a table for people at the end of a run: its steps, best score, and wall time by phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/metrics.h"

namespace carillon {

/// The wall time of a run by phase.
struct PhaseSeconds {
  double start = 0.0;        ///< from the program's start to the first step or evaluation
  double data = 0.0;         ///< waiting for records
  double training = 0.0;     ///< the rest of the steps
  double evaluation = 0.0;   ///< during training and at the end
  double checkpoints = 0.0;  ///< copying and waiting; most of the writing overlaps with steps
  double total() const { return start + data + training + evaluation + checkpoints; }
};

/// "reached accuracy 0.9840 (9840/10000) at step 2400, --stop-at-accuracy 0.98, after 34.21 s: start 0.40 s, data
/// 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s"
std::string target_line(std::int64_t step, const Score& score, double target, const PhaseSeconds& seconds);

/// "ended by --patience 3 at step 2400: no later evaluation was better than accuracy 0.9707 (9707/10000) at step
/// 900"
std::string patience_line(std::int64_t step, std::int64_t patience, const std::optional<StepScore>& best);

/// "best checkpoint runs/mnist/best.ckpt.h5: accuracy 0.9840 (9840/10000) at step 2400"
std::string best_checkpoint_line(const std::string& path, const StepScore& best);

struct RunSummary {
  std::int64_t first_step = 0, last_step = 0;  ///< steps [first_step, last_step)
  std::int64_t global_batch = 0;
  /// The evaluation of the best checkpoint. Without such a checkpoint: the best evaluation of this run. Of equal ones,
  /// the first.
  std::optional<StepScore> best;
  PhaseSeconds seconds;
  std::vector<double> rank_work;  ///< seconds by rank: its own work in steps, without waiting; empty: unknown
};

/// Seconds. A shorter run has no table.
inline constexpr double min_summary_seconds = 10.0;

/// A table of up to 11 lines; empty if the run was shorter than `min_seconds`.
std::vector<std::string> summary_lines(const RunSummary& summary, double min_seconds = min_summary_seconds);

}  // namespace carillon
