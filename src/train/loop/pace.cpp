#include "src/train/loop/pace.h"

#include <algorithm>
#include <cmath>

namespace carillon {
namespace {

constexpr std::int64_t first_check = 4;         ///< number of steps before the first plan
constexpr std::int64_t checks_at_the_end = 20;  ///< the next plan is due after at most 1 / checks_at_the_end of the
                                                ///< remaining steps

double in_steps(const PhaseSeconds& spent) { return spent.data + spent.training; }

}  // namespace

double latest_position(const Schedule& schedule, std::int64_t steps, double share) {
  if (share == 1.0) return 0.0;
  constexpr std::int64_t positions = 1000;
  const auto position = [&](std::int64_t i) {
    return static_cast<double>(steps - 1) * static_cast<double>(i) / positions;
  };
  const auto rate = [&](std::int64_t i) { return schedule.rate(std::llround(position(i))); };
  double highest = 0.0;
  for (std::int64_t i = 0; i <= positions; ++i) highest = std::max(highest, rate(i));
  std::int64_t found = positions;
  while (found > 0 && rate(found) < share * highest) --found;
  return position(found);
}

Pace::Pace(double seconds, std::int64_t schedule_steps, std::int64_t first_step,
           const std::optional<PacePoint>& resumed, double evaluation_steps)
    : seconds_(seconds),
      used_before_(resumed ? resumed->seconds : 0.0),
      evaluation_steps_(evaluation_steps),
      schedule_steps_(schedule_steps),
      first_step_(first_step),
      due_(first_step + first_check),
      point_(resumed.value_or(PacePoint{
          .step = first_step, .schedule_step = static_cast<double>(first_step), .last_step = schedule_steps})) {
  point_.schedule_step = position(first_step);
  point_.step = first_step;
  if (resumed && resumed->time_budget != seconds) {
    const double all = static_cast<double>(schedule_steps);
    point_.schedule_step = std::min(all, point_.schedule_step * resumed->time_budget / seconds);
    // As long as the speed is unknown, assumes that the run takes as many steps per part of the schedule as before. If
    // the run has ended before its first plan, plans the largest number of steps.
    const double steps =
        first_step >= first_check ? static_cast<double>(first_step) * all / std::max(1.0, point_.schedule_step) : all;
    point_.last_step = static_cast<std::int64_t>(std::min(all, std::max(steps, static_cast<double>(first_step))));
  }
  point_.time_budget = seconds;
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

std::int64_t Pace::fitting_steps(std::int64_t step, const PhaseSeconds& spent, std::int64_t evaluations,
                                 std::int64_t eval_every) const {
  double of_step = (in_steps(spent) - in_steps(spent_)) / static_cast<double>(step - point_.step);
  const double evaluation =
      evaluations > 0 ? spent.evaluation / static_cast<double>(evaluations) : of_step * evaluation_steps_;
  if (eval_every > 0) of_step += evaluation / static_cast<double>(eval_every);
  const double left = seconds_left(spent) - evaluation;
  return static_cast<std::int64_t>(std::clamp(left / std::max(of_step, 1e-9), 1.0, 1e15));
}

void Pace::replan(std::int64_t step, std::int64_t steps_left, const PhaseSeconds& spent) {
  point_ = {.step = step,
            .schedule_step = position(step),
            .last_step = std::min(schedule_steps_, step + steps_left),
            .seconds = used_before_ + spent.total(),
            .time_budget = seconds_};
  spent_ = spent;
  const std::int64_t done = step - first_step_, left = point_.last_step - step;
  due_ = step + std::max<std::int64_t>(1, std::min(done, left / checks_at_the_end));
}

}  // namespace carillon
