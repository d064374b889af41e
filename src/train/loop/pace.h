// Pace: the number of steps that a run takes with --time-budget.
#pragma once

#include <cstdint>
#include <optional>

#include "carillon/optim/optimizer_settings.h"
#include "src/report/run_log.h"

namespace carillon {

/// Returns the last position in a schedule of `steps` steps at which the rate is at least `share` times the highest
/// rate. Returns 0 if `share` is 1. Assumes that the rate falls after a warm-up, as in all usual schedules.
double latest_position(const Schedule& schedule, std::int64_t steps, double share);

/// Fits a training into a time budget (--time-budget). The schedule has a fixed length, and the run moves through it as
/// fast as the budget requires. If steps become slower, the run takes fewer steps, and each step covers more of the
/// schedule.
///
/// A run can be repeated with equal results only if --max-steps alone sets its length. Whenever the run plans its
/// number of steps again, it writes a line (PacePoint) to metrics.jsonl.
class Pace {
 public:
  /// `seconds`: time for all starts of the run. `schedule_steps`: length of the schedule, and largest number of steps.
  /// `resumed`: the last point of an earlier start of the run; nullopt: there is none. If that start had another
  /// budget, the run continues at another position in the schedule: the position that it would have reached with the
  /// budget `seconds`. Therefore a run that has ended can continue with a larger budget, at a higher learning rate.
  /// `evaluation_steps`: estimated time of an evaluation divided by the time of a step; used until an evaluation has
  /// been measured.
  Pace(double seconds, std::int64_t schedule_steps, std::int64_t first_step, const std::optional<PacePoint>& resumed,
       double evaluation_steps = 0.0);

  /// Begins the schedule at the position `schedule_step`. Call it before the first step of a run that does not resume.
  void start_at(double schedule_step) { point_.schedule_step = schedule_step; }
  /// Position of the update `step` in the schedule.
  std::int64_t schedule_step(std::int64_t step) const;
  const PacePoint& point() const { return point_; }
  /// True if `replan` must be called before `step`. A plan is due after the first few steps, and then less and less
  /// often.
  bool is_due(std::int64_t step) const { return step >= due_ && step < point_.last_step; }

  /// The seconds of the budget that are left; negative: the time is over. `spent`: times since this start of the run.
  double seconds_left(const PhaseSeconds& spent) const { return seconds_ - used_before_ - spent.total(); }
  /// Returns the number of further steps that fit into the remaining time, at least one. The result leaves time for the
  /// evaluations between these steps and at the end. `spent`: times since this start of the run. `evaluations`: number
  /// of evaluations in `spent`. `eval_every`: steps between evaluations; 0: none. Assumes that a step will take as long
  /// as the steps since the last plan took on average. Requires at least one step since the last plan.
  std::int64_t fitting_steps(std::int64_t step, const PhaseSeconds& spent, std::int64_t evaluations,
                             std::int64_t eval_every) const;
  /// Sets the end of the run: after `steps_left` further steps, but at the latest at step `schedule_steps`.
  void replan(std::int64_t step, std::int64_t steps_left, const PhaseSeconds& spent);

 private:
  double position(std::int64_t step) const;

  double seconds_, used_before_;  ///< used_before_: seconds used by earlier starts
  double evaluation_steps_;
  std::int64_t schedule_steps_, first_step_, due_;
  PacePoint point_;
  PhaseSeconds spent_;  ///< times from this start of the run to its last plan
};

}  // namespace carillon
