// TrainingStep: one synchronous training step, in three parts that a StepDriver enqueues one after the other.
//
//   gradients   forward, loss, backward; the averaging of gradients overlaps the backward pass
//   means       the wait until all gradients and step sums are averaged
//   update      the update of the variables, unless the mean loss is not finite
//
// With MeanGradients::readable, the variables are still old between the parts means and update, and the gradients are
// averaged on all ranks. Otherwise the update strategy may already update variables in the first two parts.
#pragma once

#include "src/optim/lookahead.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/update/update_strategy.h"

namespace carillon {

class TrainingStep {
 public:
  /// All arguments outlive the step.
  TrainingStep(GradientSource& source, UpdateStrategy& update, BufferLookahead& lookahead)
      : source_(source), update_(update), lookahead_(lookahead) {}

  const ParameterStore& parameters() const { return update_.parameters(); }
  /// As UpdateStrategy::gradient_norm.
  std::optional<double> gradient_norm() const { return update_.gradient_norm(); }

  /// `gradients`: the same on all ranks. `gradient_complete`: as StepRequest::gradient_complete.
  void enqueue_gradients(MeanGradients gradients, const std::function<void(int parameter)>& gradient_complete = {}) {
    update_.begin_step(gradients);
    if (!gradient_complete) return source_.enqueue(update_);
    ObservedSink observed(update_, gradient_complete);
    source_.enqueue(observed);
  }
  void enqueue_means() {
    update_.enqueue_means();
    source_.finish();
  }
  void enqueue_update() {
    lookahead_.enqueue(update_.step_end());
    update_.enqueue_update();
  }

 private:
  GradientSource& source_;
  UpdateStrategy& update_;
  BufferLookahead& lookahead_;
};

}  // namespace carillon
