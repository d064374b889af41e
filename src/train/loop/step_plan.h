// RunPosition: the progress of a run. StepPlan: the actions that are due at a step in addition to the step itself.
#pragma once

#include <cstdint>

#include "carillon/cli/options/train_options.h"

namespace carillon {

struct RunPosition {
  std::int64_t step = 0;              ///< number of updates applied
  std::uint64_t stream_position = 0;  ///< stream position of the next sample
  bool resumed = false;
};

struct StepPlan {
  std::int64_t step = 0;    ///< number of updates applied before this step
  bool logs = false;        ///< write a line on the console and in metrics.jsonl
  bool summarizes = false;  ///< write scalars, histograms and images for TensorBoard; with --summary-every above 0,
                            ///< also at the last step
  bool audits = false;      ///< another rank computes this rank's gradients again
  // After the step:
  bool compares = false;  ///< compare the ranks' variables
  bool saves = false;     ///< if `last` is true, `saves` and `evaluates` are ignored, because the end of the run saves
                          ///< and evaluates anyway
  bool evaluates = false;
  bool last = false;

  /// True if the total loss is logged.
  bool tells_loss() const { return logs || summarizes; }
  /// True if the actions need the results of all steps so far. A log line needs only the result of its own step, and is
  /// written when this result arrives.
  bool needs_results() const { return summarizes || compares || saves || evaluates || last; }
};

/// True if --eval-every requests an evaluation after `step` steps.
inline bool evaluates_after(std::int64_t step, const TrainOptions& options) {
  return step > 0 && options.data.eval_every > 0 && step % options.data.eval_every == 0;
}

/// Returns the plan of the step that follows `step` updates.
inline StepPlan plan_step(std::int64_t step, const TrainOptions& options) {
  const auto due = [](std::int64_t count, std::int64_t every) { return every > 0 && count % every == 0; };
  const bool last = step + 1 == options.optimizer.max_steps;
  const bool summary_is_due = due(step, options.logging.summary_every) && (step > 0 || options.logging.summarize_start);
  return {.step = step,
          .logs = due(step, options.logging.log_every),
          .summarizes = summary_is_due || (last && options.logging.summary_every > 0),
          .audits = due(step + 1, options.faults.audit),
          .compares = due(step + 1, options.faults.check_replicas),
          .saves = due(step + 1, options.checkpoint.checkpoint_every),
          .evaluates = due(step + 1, options.data.eval_every),
          .last = last};
}

}  // namespace carillon
