// GradientSource: computes the gradients and step sums of one rank's batch, before any averaging over the ranks.
//
//   source.enqueue(sink)                  forward, loss, backward
//     sink.acquire                        before the source writes gradients or step sums
//     sink.gradient_complete(parameter)   each parameter once, in ParameterLayout::order()
//   (an UpdateStrategy averages gradients and step sums over the ranks)
//   source.finish()                       reads averaged step sums
//
// Implementations: whole_batch.h (one pass over the batch); the batch in parts: micro_batches.h (on CPUs),
// cuda_micro_batches.h (on a GPU).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "carillon/device/device.h"
#include "carillon/graph/buffers.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/models/network.h"

namespace carillon {

/// Receives the progress of a GradientSource.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Enqueues a wait until no other rank reads this rank's gradients and step sums of the previous step any more.
  virtual void acquire(Stream& stream) = 0;
  /// The work that completes `parameter`'s gradient is enqueued, and no later work of the pass reads its value. Before
  /// the first call of a step, the work that completes the step sums is enqueued.
  virtual void gradient_complete(int parameter, Stream& stream) = 0;
};

/// Calls a function before it forwards gradient_complete to its sink. CPU only.
class ObservedSink final : public GradientSink {
 public:
  /// `sink` outlives this.
  ObservedSink(GradientSink& sink, std::function<void(int parameter)> gradient_complete)
      : sink_(sink), gradient_complete_(std::move(gradient_complete)) {}
  void acquire(Stream& stream) override { sink_.acquire(stream); }
  void gradient_complete(int parameter, Stream& stream) override {
    gradient_complete_(parameter);
    sink_.gradient_complete(parameter, stream);
  }

 private:
  GradientSink& sink_;
  std::function<void(int parameter)> gradient_complete_;
};

class GradientSource {
 public:
  virtual ~GradientSource() = default;
  /// Enqueues the forward pass, the loss and the backward pass of the step in StepInputs. Calls `sink` as above.
  virtual void enqueue(GradientSink& sink) = 0;
  /// Ends the step. Call it after the step sums are averaged over the ranks.
  virtual void finish() = 0;
  /// Call it after Graph::want_gradients_of. Gradients of parameters that do not train are then 0. CPU only: a captured
  /// CUDA graph cannot change.
  virtual void rebuild() = 0;
  /// Whether buffers (running statistics) are equal on all ranks after each step.
  virtual bool averages_buffers() const = 0;
  /// Memory of activations and their gradients, of one pass.
  virtual std::size_t activation_bytes() const = 0;
};

/// Everything that a source works on. All referenced objects must outlive the source.
struct GradientSourceContext {
  const BuiltNetwork& network;  ///< for training; its batch size is that of one pass
  Device& device;
  const ParameterStore& parameters;  ///< with gradients and step sums
  const BufferStore& buffers;
  const StepInputs& inputs;     ///< inputs of the rank's whole batch
  TowerLink* towers = nullptr;  ///< for ops that communicate within a pass; null: no such ops
};

}  // namespace carillon
