// Pace: fits a training into a time (--time-budget). The schedule has a fixed length, and the run moves through it as
// fast as its time requires: if steps become slower, fewer steps take larger parts of the schedule.
//
// Equal runs have equal results only with --max-steps alone. metrics.jsonl records the points of a pace.
#pragma once

#include <cstdint>
#include <optional>

#include "src/report/run_log.h"

namespace carillon {

class Pace {
 public:
  /// `seconds`: time for all starts of the run. `schedule_steps`: length of the schedule, and largest number of steps.
  /// `resumed`: the last point of an earlier start of the run; nullopt: there is none. If that start had another time,
  /// the run takes the position in the schedule that it would have with `seconds` from its beginning: a larger time
  /// continues a run that has ended, at a higher learning rate.
  Pace(double seconds, std::int64_t schedule_steps, std::int64_t first_step, const std::optional<PacePoint>& resumed);

  /// Position in the schedule of the update `step`.
  std::int64_t schedule_step(std::int64_t step) const;
  const PacePoint& point() const { return point_; }
  /// Whether to call `replan` before `step`: after the first few steps, then less and less often.
  bool is_due(std::int64_t step) const { return step >= due_ && step < point_.last_step; }

  /// The number of further steps that fit into the rest of the time, at least one, with the evaluations between them
  /// and at the end. `spent`: time of this start of the run, with `evaluations` evaluations. `eval_every`: steps
  /// between evaluations; 0: none. A step takes as long as the steps since the last plan. Requires steps since then.
  std::int64_t fitting_steps(std::int64_t step, const PhaseSeconds& spent, std::int64_t evaluations,
                             std::int64_t eval_every) const;
  /// Ends the run after `steps_left` further steps, but not after the length of the schedule.
  void replan(std::int64_t step, std::int64_t steps_left, const PhaseSeconds& spent);

 private:
  double position(std::int64_t step) const;

  double seconds_, used_before_;  ///< used_before_: by earlier starts of the run
  std::int64_t schedule_steps_, first_step_, due_;
  PacePoint point_;
  PhaseSeconds spent_;  ///< at the last plan of this start
};

}  // namespace carillon
