#include "src/train/loop/step_plan.h"

namespace carillon {

StepPlan plan_step(std::int64_t step, const TrainOptions& options) {
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
