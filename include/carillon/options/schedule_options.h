// ScheduleOptions: the learning rate as a function of the global step.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/optim/schedule.h"

namespace carillon {

enum class ScheduleKind { exponential, constant, step, polynomial, cosine, triangular };

/// Whether such a schedule ends at ScheduleOptions::steps.
constexpr bool has_end(ScheduleKind kind) { return kind == ScheduleKind::polynomial || kind == ScheduleKind::cosine; }

/// All steps are global steps. An exponential decay begins after the warm-up; polynomial and cosine go from the end of
/// the warm-up to `steps`.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::exponential;
  double learning_rate = 0.001;          ///< initial rate; not used by triangular
  double learning_rate_decay = 0.99;     ///< factor per decay_steps (exponential)
  std::int64_t decay_steps = 0;          ///< (exponential); 0: the program's rule, ProgramSpec::decay_steps
  bool staircase = false;                ///< (exponential), see ExponentialDecay; not an option
  std::int64_t warm_up_steps = 0;        ///< 0: no warm-up
  double warm_up_from = 0.0;             ///< learning rate at step 0 of a warm-up
  std::int64_t steps = 0;                ///< end (polynomial, cosine); 0: OptimizerOptions::max_steps
  double final_rate = 0.0;               ///< learning rate from the end on (polynomial, cosine)
  double power = 1.0;                    ///< exponent (polynomial)
  std::vector<std::int64_t> milestones;  ///< ascending steps at which the rate drops (step)
  double milestone_factor = 0.1;         ///< factor at each of them (step)
  std::vector<SchedulePoint> points;     ///< joined by lines (triangular)
};

/// The schedule of a training of `max_steps` steps. Errors: failed (exponential without decay_steps).
Schedule make_schedule(const ScheduleOptions& options, std::int64_t max_steps);

}  // namespace carillon
