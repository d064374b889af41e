// StepPlan: what is due at a step besides the step itself.
#pragma once

#include <cstdint>

#include "carillon/options/train_options.h"

namespace carillon {

struct StepPlan {
  std::int64_t step = 0;    ///< updates applied before it
  bool logs = false;        ///< a line on the console and in metrics.jsonl
  bool summarizes = false;  ///< TensorBoard's scalars, histograms and images; of the last step, too
  // After the step:
  bool compares = false;  ///< the ranks' variables
  bool saves = false;  ///< not looked at where `last`: but the last step's checkpoint and evaluation, which end the run
  bool evaluates = false;
  bool last = false;

  /// Whether the total loss is told.
  bool tells_loss() const { return logs || summarizes; }
  /// Whether what follows needs the results of all steps so far. A line does not: it is written when its step's result
  /// comes.
  bool needs_results() const { return summarizes || compares || saves || evaluates || last; }
};

/// Of the step that follows `step` updates.
StepPlan plan_step(std::int64_t step, const TrainOptions& options);

}  // namespace carillon
