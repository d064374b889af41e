#include "src/train/loop/pace.h"

#include <algorithm>
#include <cmath>

namespace carillon {
namespace {

constexpr std::int64_t first_check = 4;         ///< steps after the first one, which is slower
constexpr std::int64_t checks_at_the_end = 20;  ///< at least so many checks in the rest of a run

}  // namespace

std::int64_t steps_within(double seconds, const MeasuredPace& pace) {
  double step = pace.step;
  if (pace.eval_every > 0) step += pace.evaluation / static_cast<double>(pace.eval_every);
  const double steps = (seconds - pace.evaluation) / std::max(step, 1e-9);
  return static_cast<std::int64_t>(std::clamp(steps, 1.0, 1e15));
}

Pace::Pace(std::int64_t schedule_steps, std::int64_t first_step, const std::optional<PacePoint>& resumed)
    : schedule_steps_(schedule_steps),
      first_step_(first_step),
      due_(first_step + first_check),
      point_(resumed.value_or(PacePoint{
          .step = first_step, .schedule_step = static_cast<double>(first_step), .last_step = schedule_steps})) {
  point_.schedule_step = position(first_step);
  point_.step = first_step;
}

double Pace::position(std::int64_t step) const {
  if (step >= point_.last_step) return static_cast<double>(schedule_steps_);
  const double done = static_cast<double>(step - point_.step),
               all = static_cast<double>(point_.last_step - point_.step);
  return point_.schedule_step + done / all * (static_cast<double>(schedule_steps_) - point_.schedule_step);
}

std::int64_t Pace::schedule_step(std::int64_t step) const {
  return std::min(std::llround(position(step)), static_cast<long long>(schedule_steps_ - 1));
}

void Pace::replan(std::int64_t step, std::int64_t steps_left, double seconds) {
  point_ = {.step = step,
            .schedule_step = position(step),
            .last_step = std::min(schedule_steps_, step + std::max<std::int64_t>(1, steps_left)),
            .seconds = seconds};
  const std::int64_t done = step - first_step_, left = point_.last_step - step;
  due_ = step + std::max<std::int64_t>(1, std::min(done, left / checks_at_the_end));
}

}  // namespace carillon
