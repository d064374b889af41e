// UpdateStrategy: averages the gradients of a step over the ranks and updates the variables.
//
// A strategy decides where variables, gradients and optimiser slots are stored, which rank updates which elements, and
// how the other ranks get the updated variables. After each step all ranks hold equal variables, bit for bit.
//
//   replicated      every rank updates all variables from the all-reduced gradients    CPU, GPU; any update rule
//   sharded (host)  each rank updates its shard in memory that the ranks share,        CPUs of one host; elementwise
//                   and copies the other shards                                        update rules
//
// A step, in this order:
//
//   begin_step
//   acquire, gradient_complete ...   called by the GradientSource (GradientSink)
//   enqueue_means                    then step_end().sums * step_end().result_scale are the mean step sums
//   (an observer may read mean gradients and old variables after begin_step(MeanGradients::readable))
//   enqueue_update                   then the variables are updated, if step_end() allows it
//
// A strategy may average and update earlier: it may update all variables in enqueue_means, or each variable in the
// gradient_complete call of this variable. A strategy must not do this if the mean gradients must be readable.
//
// To add a strategy, write one file: implement this interface and a factory of the type MakeUpdateStrategy, and pass
// the factory as TowerSettings::make_update. For example, tests/step/custom_update_mpi_test.cpp shards slots over ranks
// that do not share memory. A strategy that shards slots can reserve address space for whole arrays and touch only its
// own shard, because untouched pages use no memory. Optimisers then use ParameterStore in the usual way. If
// OptimizerSettings::clip_norm is set, a strategy that updates ranges itself must first compute the norm of the whole
// mean gradient (GradientNorm) and pass it to ElementwiseOptimizer::clip.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "carillon/graph/graph.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/comm/allreduce/communicator.h"
#include "src/optim/optimizer.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/gradients/reducer.h"

namespace carillon {

/// Lets another thread stop the steps of a rank between two updates, so that the other thread can save the rank's
/// variables.
class UpdateGate {
 public:
  /// The thread that takes steps calls this before it changes variables, slots or saved buffers, and before it allows
  /// other ranks to change shared slots. If the updates are stopped, this function never returns. Further calls before
  /// `leave` have no effect.
  void enter() {
    State expected = State::open;
    while (state_.load(std::memory_order_relaxed) != State::entered &&
           !state_.compare_exchange_weak(expected, State::entered, std::memory_order_acquire)) {
      if (expected == State::stopped) pause();  // until the process ends
      expected = State::open;
    }
  }
  /// Call it when the step is complete. After this call, `stop` can succeed.
  void leave() {
    State expected = State::entered;
    state_.compare_exchange_strong(expected, State::open, std::memory_order_release);
  }
  /// Prevents all further updates. Any thread may call it. Returns false if an update is running.
  bool stop() {
    State expected = State::open;
    return state_.compare_exchange_strong(expected, State::stopped, std::memory_order_acquire) ||
           expected == State::stopped;
  }

 private:
  enum class State { open, entered, stopped };
  std::atomic<State> state_{State::open};
};

/// States whether the mean gradients of a step are readable between enqueue_means and enqueue_update.
enum class MeanGradients {
  readable,     ///< every rank can read the mean gradients and the old variables
  update_only,  ///< only the update uses the mean gradients; their memory is undefined after the step
};

class UpdateStrategy : public GradientSink {
 public:
  // Memory.
  /// Variables, gradients and step sums of this rank. To access the slots, call `slot`.
  virtual const ParameterStore& parameters() const = 0;
  /// Slot number `slot` of optimizer_slots, with the layout of `parameters`, in the device's memory. Write it only
  /// before broadcast_from_first. Read it only between `synchronize` and the next step. A strategy that shards its
  /// slots may allocate the whole array for only these two periods. Replicated slots are always readable.
  virtual std::span<float> slot(int slot) const = 0;
  /// True if every rank has equal slots in its own memory. If false, only rank 0 may write slots.
  virtual bool replicates_slots() const = 0;
  /// Copies rank 0's variables and slots to all ranks. Call it before the first step. Collective.
  virtual void broadcast_from_first() = 0;
  /// Makes the slots readable on every rank. They have the values after the last enqueued step. Collective.
  virtual void synchronize() {}

  // A step.
  /// `gradients` must be equal on all ranks.
  virtual void begin_step(MeanGradients gradients) = 0;
  /// Enqueues the averages that are not yet enqueued, and the wait for all averages. Call it after the last
  /// gradient_complete.
  virtual void enqueue_means() = 0;
  /// Returns the averaged step sums and their scale. Call it after enqueue_means.
  virtual const StepEnd& step_end() const = 0;
  /// Enqueues the update, if it is not yet enqueued. On a GPU, the update contains the step's last kernel
  /// (finish_block).
  virtual void enqueue_update() = 0;
  /// Returns the norm of the last step's mean gradient before clipping. It is equal on all ranks. It has a value only
  /// on a CPU with OptimizerSettings::clip_norm, and only if the last step updated the variables.
  virtual std::optional<double> gradient_norm() const { return std::nullopt; }
  /// CPU only: true if the variables and slots that this rank can read belong to one completed step. In this case, the
  /// rank can call `synchronize` and save them without the other ranks. Returns false during an update, and if an
  /// update may have been interrupted.
  virtual bool holds_whole_step() const = 0;
};

/// The objects that a strategy uses. They outlive the strategy.
struct UpdateContext {
  const Graph& graph;  ///< graph of the network: has the specs of the parameters, and the ops that read the parameters
  const OptimizerSettings& optimizer;
  Device& device;
  Communicator& communicator;
  const StepInputs& inputs;  ///< has the scalars of each step (StepInputs::scalars, StepHeader)
  std::size_t step_sums = step_sum_count;
  std::size_t bucket_bytes = 0;  ///< bytes per bucket of gradients; 0: default (bucket_bytes_on)
  UpdateGate* gate = nullptr;    ///< a CPU strategy enters the gate before each update, and the code that uses the
                                 ///< strategy leaves the gate; may be null
};

/// Collective. Errors: as make_optimizer.
using MakeUpdateStrategy = std::function<std::unique_ptr<UpdateStrategy>(const UpdateContext& context)>;

/// Makes a ShardedUpdate if the communicator has shared memory and the rule is elementwise, otherwise a
/// ReplicatedUpdate.
std::unique_ptr<UpdateStrategy> make_update_strategy(const UpdateContext& context);

/// Estimates the number of bytes that this rank shares with the other ranks of its host, for the strategy that
/// make_update_strategy chooses. Ignores gaps and step sums. Returns 0 if there is no shared memory.
std::size_t shared_bytes(std::size_t parameter_count, const OptimizerSettings& optimizer, const Device& device,
                         Communicator& communicator);

// ReplicatedUpdate: the UpdateStrategy in which every rank has all slots and updates all variables. The strategy
// supports CPUs and GPUs, and all update rules.
//
//   gradient_complete   starts the all-reduce of each bucket that is complete, during the backward pass
//   enqueue_means       waits for all buckets
//   enqueue_update      Optimizer::apply

/// A function with the contract of make_optimizer.
using MakeOptimizer =
    std::function<std::unique_ptr<Optimizer>(const OptimizerSettings& settings, const ParameterStore& parameters,
                                             Device& device, const StepInputs& inputs, Arithmetic arithmetic)>;

class ReplicatedUpdate final : public UpdateStrategy {
 public:
  explicit ReplicatedUpdate(const UpdateContext& context, const MakeOptimizer& make = make_optimizer);

  const ParameterStore& parameters() const override { return parameters_; }
  std::span<float> slot(int slot) const override { return parameters_.slot(slot); }
  bool replicates_slots() const override { return true; }
  void broadcast_from_first() override;

  void begin_step(MeanGradients gradients) override { gradients_ = gradients; }
  void acquire(Stream& stream) override { reducer_.begin(stream); }
  void gradient_complete(int parameter, Stream& stream) override;
  void enqueue_means() override;
  const StepEnd& step_end() const override { return end_; }
  void enqueue_update() override;
  std::optional<double> gradient_norm() const override;
  bool holds_whole_step() const override { return !is_updating_; }

 private:
  Device& device_;
  Communicator& communicator_;
  ParameterStore parameters_;
  Reducer reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  StepEnd end_;
  MeanGradients gradients_ = MeanGradients::readable;
  bool clips_;
  UpdateGate* gate_;
  bool is_updating_ = false;
};

// Compute copies of parameters on a GPU, for ReplicatedUpdate and for evaluations.

/// Makes a compute copy of each parameter of the graph, in the format that the parameter's op reads. The copies hold
/// zeros. Returns an empty list on a CPU, and if no op reads a compute copy.
std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device);

/// Enqueues the conversion of the parameters' current values to their compute copies. Call it after every change of
/// parameters. Exception: it is not necessary after updates, because they also write the copies.
void refresh_compute_copies(const ParameterStore& parameters, Device& device);

}  // namespace carillon
