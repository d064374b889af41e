#include "carillon/run/step_plan.h"

namespace carillon {

StepPlan plan_step(std::int64_t step, const TrainOptions& options) {
  const auto due = [](std::int64_t count, std::int64_t every) { return every > 0 && count % every == 0; };
  return {.step = step,
          .logs = due(step, options.log_every),
          .summarizes = step > 0 && due(step, options.summary_every),
          .compares = due(step + 1, options.check_replicas),
          .saves = due(step + 1, options.checkpoint_every),
          .evaluates = due(step + 1, options.eval_every),
          .last = step + 1 == options.max_steps};
}

}  // namespace carillon
