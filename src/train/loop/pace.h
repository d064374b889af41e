// Pace: fits a training into a time (--time-budget). The schedule has a fixed length, and the run moves through it as
// fast as its time requires: if steps become slower, fewer and larger parts of the schedule remain.
//
// Equal runs have equal results only with --max-steps alone. metrics.jsonl records the points of a pace.
#pragma once

#include <cstdint>
#include <optional>

#include "src/report/metrics.h"

namespace carillon {

/// What rank 0 measures of a run. All times in seconds.
struct MeasuredPace {
  double step = 0.0;            ///< a step, with the wait for its data
  double evaluation = 0.0;      ///< one evaluation; 0: none so far
  std::int64_t eval_every = 0;  ///< steps between evaluations; 0: none
};

/// The number of steps that fit into `seconds`, at least one, with the evaluations between them and at the end.
std::int64_t steps_within(double seconds, const MeasuredPace& pace);

class Pace {
 public:
  /// `schedule_steps`: length of the schedule, and largest number of steps. `resumed`: the last point of an earlier
  /// start of the run; nullopt: there is none.
  Pace(std::int64_t schedule_steps, std::int64_t first_step, const std::optional<PacePoint>& resumed);

  /// Position in the schedule of the update `step`.
  std::int64_t schedule_step(std::int64_t step) const;
  const PacePoint& point() const { return point_; }
  /// Whether to call `replan` before `step`: after the first few steps, then less and less often.
  bool is_due(std::int64_t step) const { return step >= due_ && step < point_.last_step; }
  /// Ends the run after `steps_left` further steps, but not after the length of the schedule. `seconds`: time used.
  void replan(std::int64_t step, std::int64_t steps_left, double seconds);

 private:
  double position(std::int64_t step) const;

  std::int64_t schedule_steps_, first_step_, due_;
  PacePoint point_;
};

}  // namespace carillon
