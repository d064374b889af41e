// TrainingStep: the work of one synchronous step, to be enqueued on a device's stream, in three parts.
//
//   gradients   forward, loss, backward; after each op its gradients may start to be averaged
//   means       what is left to wait for until all gradients and step sums are averaged
//   update      of the variables, unless the mean loss is not finite
//
// Where the batch is taken in micro-batches, all gradients are complete at once, when the last has gone back.
//
// Between means and update the variables are old and the gradients averaged, on all towers. Where the towers have
// memory in common and nobody looks between the two, the first two parts make the update as well (ShardedUpdate).
#pragma once

#include "src/graph/executable.h"
#include "src/graph/step_end.h"
#include "src/optim/optimizer.h"
#include "src/step/gradients/micro_batches.h"
#include "src/step/gradients/reducer.h"
#include "src/step/update/sharded_update.h"

namespace carillon {

/// What a step works on; all of it outlives the step.
struct TrainingStepParts {
  Executable* executable = nullptr;  ///< for the whole batch, else micro_batches
  Value loss;
  const ParameterStore& parameters;
  Reducer& reducer;
  Optimizer& optimizer;
  const StepInputs& inputs;
  ShardedUpdate* common = nullptr;        ///< where the towers have memory in common
  MicroBatches* micro_batches = nullptr;  ///< where the batch is taken in parts
  BufferLookahead* lookahead = nullptr;   ///< where buffers have one
  float result_scale = 1.0f;              ///< Communicator::result_scale
};

/// Who is to have the means of a step.
enum class Means {
  everywhere,  ///< every tower, between means and update
  in_update,   ///< the update alone
};

class TrainingStep {
 public:
  explicit TrainingStep(const TrainingStepParts& parts)
      : parts_(parts), end_{parts.parameters.step_sums().data(), parts.inputs.progress} {}
  /// Goes on with another executable of the same network, on a CPU. Gradients that it does not compute are 0.
  void run_in(Executable* executable) {
    parts_.executable = executable;
    clears_gradients_ = true;
  }

  /// `means`: of this step, the same on all towers.
  void enqueue_gradients(Device& device, Means means = Means::everywhere);
  void enqueue_means(Device& device);
  void enqueue_update(Device& device);
  /// As Optimizer::l2_loss.
  double l2_loss() { return parts_.optimizer.l2_loss(); }

 private:
  void enqueue_whole_batch(Device& device);
  void enqueue_micro_batches(Device& device);
  /// Makes gradients and step sums means, where somebody looks at them before the update.
  void make_observed_means(Stream& stream);

  TrainingStepParts parts_;
  StepEnd end_;
  Means means_ = Means::everywhere;  ///< of the step in hand
  bool updates_with_means_ = false;  ///< in it
  bool clears_gradients_ = false;    ///< before the next backward pass
};

}  // namespace carillon
