// TrainingStep: the work of one synchronous step, to be enqueued on a device's stream, in three parts.
//
//   gradients   forward, loss, backward; after each op its gradients may start to be averaged
//   means       what is left to wait for until all gradients and step sums are averaged
//   update      of the variables, unless the mean loss is not finite
//
// Between means and update the variables are old and the gradients averaged.
#pragma once

#include "carillon/graph/executable.h"
#include "carillon/graph/step_end.h"
#include "carillon/optim/optimizer.h"
#include "carillon/step/reducer.h"

namespace carillon {

/// What a step works on; all of it outlives the step.
struct TrainingStepParts {
  Executable& executable;
  Value loss;
  const ParameterStore& parameters;
  Reducer& reducer;
  Optimizer& optimizer;
  const StepInputs& inputs;
};

class TrainingStep {
 public:
  explicit TrainingStep(const TrainingStepParts& parts)
      : parts_(parts), end_{parts.parameters.step_sums().data(), parts.inputs.progress} {}

  void enqueue_gradients(Device& device);
  void enqueue_means(Device& device);
  void enqueue_update(Device& device);

 private:
  TrainingStepParts parts_;
  StepEnd end_;
};

}  // namespace carillon
