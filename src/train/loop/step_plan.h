// StepPlan: the actions that are due at a step in addition to the step itself.
#pragma once

#include <cstdint>

#include "carillon/cli/options/train_options.h"

namespace carillon {

struct StepPlan {
  std::int64_t step = 0;    ///< updates applied before it
  bool logs = false;        ///< a line on the console and in metrics.jsonl
  bool summarizes = false;  ///< scalars, histograms and images for TensorBoard; if any, also at the last step
  bool audits = false;      ///< another rank computes the gradients again
  // After the step:
  bool compares = false;  ///< compare the ranks' variables
  bool saves = false;     ///< `saves` and `evaluates` are ignored if `last`: the end of the run does both
  bool evaluates = false;
  bool last = false;

  /// Whether the total loss is logged.
  bool tells_loss() const { return logs || summarizes; }
  /// Whether the actions need the results of all steps so far. A log line does not: it is written when the result of
  /// its step arrives.
  bool needs_results() const { return summarizes || compares || saves || evaluates || last; }
};

/// The plan of the step after `step` updates.
StepPlan plan_step(std::int64_t step, const TrainOptions& options);

}  // namespace carillon
