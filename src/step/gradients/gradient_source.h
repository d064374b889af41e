// GradientSource: computes the gradients and step sums of one rank's batch, before any averaging over the ranks.
//
//   source.enqueue(sink)                  forward, loss, backward
//     sink.acquire                        before the source writes gradients or step sums
//     sink.gradient_complete(parameter)   each parameter once, in ParameterLayout::order()
//   (an UpdateStrategy averages gradients and step sums over the ranks)
//   source.finish()                       reads averaged step sums
//
// Implementations: whole_batch.h (one pass over the batch), micro_batches.h (the batch in parts, on CPUs).
#pragma once

#include <cstddef>
#include <memory>

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
  /// Enqueues the wait until gradients and step sums may be written: other ranks may still read those of the last step.
  virtual void acquire(Stream& stream) = 0;
  /// The work that completes `parameter`'s gradient is enqueued, and no later work of the pass reads its value. Before
  /// the first call of a step, the work that completes the step sums is enqueued.
  virtual void gradient_complete(int parameter, Stream& stream) = 0;
};

class GradientSource {
 public:
  virtual ~GradientSource() = default;
  /// Enqueues the forward pass, the loss and the backward pass of the step in StepInputs. Calls `sink` as above.
  virtual void enqueue(GradientSink& sink) = 0;
  /// After the step sums are averaged over the ranks. Ends the step.
  virtual void finish() = 0;
  /// Adapts to the graph's present Graph::want_gradients_of. Gradients that are not wanted are 0. CPU only: a captured
  /// step cannot change.
  virtual void rebuild() = 0;
  /// Whether each step leaves equal buffers (running statistics) on all ranks.
  virtual bool averages_buffers() const = 0;
  /// Memory of activations and their gradients, of one pass.
  virtual std::size_t activation_bytes() const = 0;
};

/// Everything that a source works on. All of it outlives the source.
struct GradientSourceContext {
  const BuiltNetwork& network;  ///< for training; its batch is the source's pass
  Device& device;
  const ParameterStore& parameters;  ///< with gradients and step sums
  const BufferStore& buffers;
  const StepInputs& inputs;     ///< of the rank's whole batch
  TowerLink* towers = nullptr;  ///< for ops that communicate within a pass; null: none does
};

}  // namespace carillon
