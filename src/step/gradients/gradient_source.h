// GradientSource: computes the gradients and step sums of one rank's batch, before any averaging over the ranks.
//
//   source.enqueue(sink)                  forward, loss, backward
//     sink.acquire                        before the source writes gradients or step sums
//     sink.gradient_complete(parameter)   each parameter once, in ParameterLayout::order()
//   (an UpdateStrategy averages gradients and step sums over the ranks)
//   source.finish()                       reads averaged step sums
//
// The implementations are: make_whole_batch computes the batch in one pass; MicroBatches (CPUs) and
// make_cuda_micro_batches (GPUs) compute it in parts.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "carillon/device/device.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/models/network.h"

namespace carillon {

/// Receives the progress of a GradientSource.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Enqueues a wait until all other ranks have read this rank's gradients and step sums of the previous step.
  virtual void acquire(Stream& stream) = 0;
  /// The source calls this when the work that completes the gradient of `parameter` is enqueued. No later work of the
  /// pass reads the value of `parameter`. Before the first call of a step, the source has enqueued the work that
  /// completes the step sums.
  virtual void gradient_complete(int parameter, Stream& stream) = 0;
};

/// A sink that calls a function, and then calls gradient_complete of another sink. CPU only.
class ObservedSink final : public GradientSink {
 public:
  /// `sink` outlives this object.
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
  /// Enqueues the forward pass, the loss and the backward pass of the step in StepInputs. Calls `sink` as the comment
  /// at the start of this file describes.
  virtual void enqueue(GradientSink& sink) = 0;
  /// Ends the step. Call it after the step sums are averaged over the ranks.
  virtual void finish() = 0;
  /// Call it after Graph::want_gradients_of. Gradients of parameters that do not train are then 0. CPU only: a captured
  /// CUDA graph cannot change.
  virtual void rebuild() = 0;
  /// True if buffers (running statistics) are equal on all ranks after each step.
  virtual bool averages_buffers() const = 0;
  /// Bytes of the activations and their gradients in one pass.
  virtual std::size_t activation_bytes() const = 0;
};

/// The objects that a source works on. All objects must outlive the source.
struct GradientSourceContext {
  const BuiltNetwork& network;  ///< built for training; its batch size is the number of samples in one pass
  Device& device;
  const ParameterStore& parameters;  ///< the variables, with their gradients and the step sums
  const BufferStore& buffers;
  const StepInputs& inputs;     ///< inputs of the rank's whole batch
  TowerLink* towers = nullptr;  ///< link for ops that communicate within a pass; null: the network has no such op
};

/// Makes the source that computes the batch in one pass, on a CPU or a GPU.
std::unique_ptr<GradientSource> make_whole_batch(const GradientSourceContext& context);

/// Writes the step sums of the current step on a CPU. On a GPU the loss op writes them (OpTensors::step_sums).
///
///   sums[loss_sum] = loss                         sums: [step_sum_count] (graph/parameters.h)
///   sums[sync_sum] = 1 if this rank requests a synchronisation, else 0
///
/// `loss`: a scalar. Errors: failed (the device is not a CPU).
void write_step_sums(const Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums);

}  // namespace carillon
