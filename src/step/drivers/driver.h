// TrainingStep and StepDriver: the parts of a training step, and how a device runs them. StepQueue: tracks the steps
// that the host enqueues ahead of a GPU.
//
// A CPU runs each step immediately. For a GPU, the host enqueues steps ahead: it writes their inputs to a table in the
// GPU's memory, replays a captured step, and reads the results some steps later.
//
// The number of steps between a step and its result depends only on the calls, not on timing. So all ranks learn of a
// synchronisation request or a NaN at the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/comm/allreduce/communicator.h"
#include "src/optim/optimizer.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/input/input_stage.h"
#include "src/step/update/update_strategy.h"

namespace carillon {

/// TrainingStep: one synchronous training step, in three parts that a StepDriver enqueues one after the other.
///
///   gradients   forward, loss, backward; the averaging of gradients overlaps the backward pass
///   means       the wait until all gradients and step sums are averaged
///   update      the update of the variables, unless the mean loss is not finite
///
/// With MeanGradients::readable, every rank has the mean gradients after the part `means`, and no variable changes
/// before the part `update`. With MeanGradients::update_only, the update strategy may already update variables in the
/// first two parts.
class TrainingStep {
 public:
  /// All arguments outlive the step.
  TrainingStep(GradientSource& source, UpdateStrategy& update, BufferLookahead& lookahead)
      : source_(source), update_(update), lookahead_(lookahead) {}

  const ParameterStore& parameters() const { return update_.parameters(); }
  /// See UpdateStrategy::gradient_norm.
  std::optional<double> gradient_norm() const { return update_.gradient_norm(); }

  /// Enqueues the part `gradients`. The argument `gradients` must be the same on all ranks. `gradient_complete`: as
  /// StepRequest::gradient_complete.
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

/// The result of a step, averaged over the ranks. All members except the times are equal on all ranks.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0.0;     ///< mean over the global batch, without L2. If it is not finite, the update was skipped
  double l2_loss = 0.0;  ///< L2 loss before the update, in steps that report it
  /// Norm of the mean gradient before clipping; the gradient includes the L2 part. Has a value only if
  /// OptimizerSettings::clip_norm is set and the step updates the variables.
  std::optional<double> gradient_norm = {};
  bool sync_requested = false;  ///< true: a rank requested a synchronisation
  /// On a CPU: seconds that TrainingStep::enqueue_means takes after this rank's backward pass. On a GPU: 0.
  double reduce_seconds = 0.0;
  /// Estimated time at which the step ended. If the host learns at the same time that several steps have ended, it
  /// assumes that these steps took equally long.
  std::chrono::steady_clock::time_point finished;
};

/// Returns the sum of the task's loss and the L2 loss.
inline double total_loss(const StepResult& result) { return result.loss + result.l2_loss; }

/// Selects which results next_result returns.
enum class Results {
  due,  ///< all steps except the newest ones, which the device keeps in flight (StepQueue)
  all,  ///< every step
};

class StepDriver {
 public:
  virtual ~StepDriver() = default;
  /// Runs a step immediately, or enqueues the step, so that it runs before its result is returned.
  virtual void enqueue(const StepRequest& request) = 0;
  /// Launches all enqueued steps. Later work on the stream runs after them.
  virtual void flush() = 0;
  /// Waits for the oldest result that is due and not yet returned, and returns it. A CPU keeps only the result of the
  /// last step.
  virtual std::optional<StepResult> next_result(Results wanted) = 0;
  /// Returns the nodes of a captured step. Kernels are listed by name. The list is empty before the first capture.
  virtual const std::vector<std::string>& captured_nodes() const = 0;
};

/// Returns the number of slots that the device's driver requires in the input stage. Depends only on the arguments, so
/// that all ranks launch the same blocks of steps. `passes`: number of micro-batches in a step. Each micro-batch has
/// one forward and one backward pass.
std::uint32_t input_stage_slots(DeviceKind device, std::size_t batch_size, std::size_t image_bytes,
                                std::uint32_t passes = 1);

/// The objects that a driver uses. They outlive the driver.
struct DrivenTower {
  Device& device;
  Communicator& communicator;
  InputStage& input_stage;
  TrainingStep& step;
};

/// Makes the driver of a device. `capture`: replay captured steps, if device and communicator can do this.
std::unique_ptr<StepDriver> make_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);
/// Does the same as make_step_driver for a GPU. CUDA builds only (cuda_driver.cpp).
std::unique_ptr<StepDriver> make_cuda_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);

// StepQueue, for the driver of a GPU.
//
// Steps use the slots of a ring in turn. Consecutive steps are uploaded and launched together, as a block. This happens
// when the block is full, or earlier if a result of these steps is requested. A slot is used again only after the
// launch that read it has finished.

/// The interface through which the queue uses the device. Slots are numbered 0 to capacity - 1.
class StepEngine {
 public:
  virtual ~StepEngine() = default;
  /// Copies a step's inputs to `slot`, in the host's memory.
  virtual void write(std::uint32_t slot, const StepRequest& request) = 0;
  /// Enqueues the upload of `count` slots from `first` on, modulo the capacity, and then the steps in these slots.
  /// `before_update` may be empty; otherwise `count` must be 1.
  virtual void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) = 0;
  /// Returns when the oldest launch in flight has finished. Errors: failed (the device reports an error), lost_rank (a
  /// peer is lost).
  virtual void wait_for_oldest() = 0;
  /// Returns the outcome of the finished step in `slot`.
  virtual StepOutcome outcome(std::uint32_t slot) const = 0;
};

struct StepRingForm {
  std::uint32_t block = 1;   ///< steps per block; a power of two
  std::uint32_t blocks = 1;  ///< a power of two, at least 2
  std::uint32_t capacity() const { return block * blocks; }
};

/// Makes the ring of input slots (input_stage_slots). Each step has `batch_size` samples in `passes` micro-batches.
/// Limits the steps per block so that the staging memory for images stays small and a captured block has at most 16
/// passes.
StepRingForm ring_form(std::size_t batch_size, std::size_t image_bytes, std::uint32_t passes = 1);
/// Makes the ring with `slots` slots.
StepRingForm ring_of(std::uint32_t slots);

class StepQueue {
 public:
  StepQueue(StepEngine& engine, StepRingForm form) : engine_(engine), form_(form) {}

  /// Adds a step. If `at_once` is true or the step has a `before_update`, launches the step immediately. Otherwise
  /// launches it with its block.
  void push(const StepRequest& request, bool at_once);
  /// Launches all steps that are not yet launched.
  void flush() { launch_pushed({}); }
  /// Does the same as StepDriver::next_result. Results::due keeps up to `blocks - 1` blocks in flight.
  std::optional<StepResult> next_result(Results wanted);

 private:
  struct Launch {
    std::uint64_t first;
    std::uint32_t count;
    std::chrono::steady_clock::time_point enqueued;
  };

  void launch_pushed(const std::function<void()>& before_update);
  /// Waits for all launches that start before step `index`, and stores the results of their steps.
  void complete_before(std::uint64_t index);
  std::uint32_t slot_of(std::uint64_t index) const { return static_cast<std::uint32_t>(index % form_.capacity()); }

  StepEngine& engine_;
  StepRingForm form_;
  /// The numbers of steps that have been pushed, launched and completed. Each number is also the index of the next step
  /// that will be pushed, launched or completed.
  std::uint64_t pushed_ = 0, launched_ = 0, completed_ = 0;
  std::deque<std::int64_t> numbers_;  ///< StepRequest::step of all steps that are not completed
  std::deque<Launch> launches_;       ///< launches in flight, oldest first
  std::deque<StepResult> results_;    ///< results of completed steps that are not yet returned
  /// Time at which the last completed launch ended.
  std::chrono::steady_clock::time_point last_end_ = std::chrono::steady_clock::time_point::min();
};

}  // namespace carillon
