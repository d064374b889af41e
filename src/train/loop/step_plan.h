// RunPosition: the progress of a run. StepPlan: the actions that are due at a step in addition to the step itself.
// Pace: how many steps a run takes with --time-budget.
#pragma once

#include <cstdint>
#include <optional>

#include "carillon/cli/options/train_options.h"
#include "src/report/run_log.h"

namespace carillon {

struct RunPosition {
  std::int64_t step = 0;              ///< updates applied
  std::uint64_t stream_position = 0;  ///< position of the next sample
  bool resumed = false;
};

struct StepPlan {
  std::int64_t step = 0;    ///< updates applied before this step
  bool logs = false;        ///< a line on the console and in metrics.jsonl
  bool summarizes = false;  ///< scalars, histograms and images for TensorBoard; if enabled, also at the last step
  bool audits = false;      ///< another rank computes the gradients again
  // After the step:
  bool compares = false;  ///< compare the ranks' variables
  bool saves = false;     ///< `saves` and `evaluates` are ignored if `last`: the end of the run does both
  bool evaluates = false;
  bool last = false;

  /// Whether the total loss is logged.
  bool tells_loss() const { return logs || summarizes; }
  /// Whether the actions need the results of all steps so far. A log line needs only the result of its own step, and is
  /// written when this result arrives.
  bool needs_results() const { return summarizes || compares || saves || evaluates || last; }
};

/// Whether --eval-every asks for an evaluation after `step` steps.
inline bool evaluates_after(std::int64_t step, const TrainOptions& options) {
  return step > 0 && options.data.eval_every > 0 && step % options.data.eval_every == 0;
}

/// The plan of the step after `step` updates.
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

/// Fits a training into a time budget (--time-budget). The schedule has a fixed length, and the run moves through it as
/// fast as the budget requires: if steps become slower, the run takes fewer steps, and each step covers more of the
/// schedule.
///
/// A run can be repeated with equal results only if --max-steps alone sets its length. metrics.jsonl records the points
/// of a pace.
class Pace {
 public:
  /// `seconds`: time for all starts of the run. `schedule_steps`: length of the schedule, and largest number of steps.
  /// `resumed`: the last point of an earlier start of the run; nullopt: there is none. If that start had another
  /// budget, the run continues at the position in the schedule that it would have if its budget had always been
  /// `seconds`. Therefore a larger budget continues a run that has ended, at a higher learning rate.
  Pace(double seconds, std::int64_t schedule_steps, std::int64_t first_step, const std::optional<PacePoint>& resumed);

  /// Position of the update `step` in the schedule.
  std::int64_t schedule_step(std::int64_t step) const;
  const PacePoint& point() const { return point_; }
  /// Whether to call `replan` before `step`: after the first few steps, then less and less often.
  bool is_due(std::int64_t step) const { return step >= due_ && step < point_.last_step; }

  /// The number of further steps that fit into the rest of the time, at least one, with the evaluations between them
  /// and at the end. `spent`: time of this start of the run, with `evaluations` evaluations. `eval_every`: steps
  /// between evaluations; 0: none. Assumes that a step takes as long as the steps since the last plan. Requires at
  /// least one step since the last plan.
  std::int64_t fitting_steps(std::int64_t step, const PhaseSeconds& spent, std::int64_t evaluations,
                             std::int64_t eval_every) const;
  /// Sets the end of the run: after `steps_left` further steps, but at most after the length of the schedule.
  void replan(std::int64_t step, std::int64_t steps_left, const PhaseSeconds& spent);

 private:
  double position(std::int64_t step) const;

  double seconds_, used_before_;  ///< used_before_: seconds used by earlier starts
  std::int64_t schedule_steps_, first_step_, due_;
  PacePoint point_;
  PhaseSeconds spent_;  ///< at the last plan of this start
};

}  // namespace carillon
