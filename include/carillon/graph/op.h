// OpDefinition: one node of a network and its settings, without a device. Op: the node with memory on one device, made
// by OpDefinition::instantiate.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// The memory of an op. The op neither reads nor writes a tensor without data.
struct OpTensors {
  std::vector<Tensor> inputs, outputs;  ///< activations
  /// Gradients of the loss, in the activations' shapes. Empty outside training. A gradient that no op needs has no
  /// data. The output gradient of the loss is 1 by definition and has no data. If an op has several outputs, the
  /// gradient of an output that no op reads is 0 and has no data.
  std::vector<Tensor> input_gradients, output_gradients;
  std::vector<Tensor> parameters, parameter_gradients;  ///< gradients: empty outside training
  /// The compute copy of each parameter, in the format of OpTraits::compute_copy_format. The copies are current when
  /// the op runs: the update writes them, and an evaluation converts the parameters before its first batch. If the
  /// vector is empty (in summaries of layers, and on CPUs) or an element has no data, the op reads `parameters`.
  std::vector<Tensor> parameter_compute_copies = {};
  std::vector<Tensor> buffers;  ///< float32, kept from step to step
  /// [columns], float32: backward writes the column sums of input gradient 0 here. They are the gradient of the biases
  /// of the op that produces input 0. Set only for ops with OpTraits::sums_input_gradient.
  Tensor input_gradient_sums = {};
  /// If this span is not empty, backward computes the loss and the other step sums and writes them to it; forward need
  /// not write the loss. step_sums[loss_sum] is the loss; step_sums[sync_sum] is StepHeader::request_sync of the step.
  /// Set only for ops with OpTraits::writes_step_sums.
  std::span<float> step_sums = {};
};

/// Exchanges values between the towers during a forward or backward pass, for example for synchronised batch norm. A
/// tower is one rank's replica of the network with its device.
class TowerLink {
 public:
  virtual ~TowerLink() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;  ///< number of towers, which is the number of ranks
  /// For CPUs: concatenates every rank's `own` in rank order. Collective: all ranks make the same calls in the same
  /// order, with equal lengths.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
  /// For GPUs: enqueues a copy of every rank's row to all ranks. Collective, as gather. `rows`: device memory with any
  /// bits, [size()][row]. A row has a multiple of 16 floats; row number rank() belongs to this rank.
  virtual void gather_rows(std::span<float> rows, Stream& stream) = 0;
};

struct OpContext {
  Device* device = nullptr;  ///< never null in OpDefinition::instantiate; outlives the op
  Arithmetic arithmetic = Arithmetic::fp32;
  bool training = false;             ///< if false, backward never runs, and the op only reads its buffers
  const StepInputs* step = nullptr;  ///< outlives the op
  TowerLink* towers = nullptr;       ///< outlives the op; null: the op computes as if its rank were alone
};

class Op {
 public:
  virtual ~Op() = default;
  /// Enqueues outputs = f(inputs, parameters, buffers) and, in training, the change of the buffers.
  virtual void forward(Stream& stream) = 0;
  /// Enqueues the computation of input and parameter gradients, which overwrites the old gradients. Exception: an op
  /// made by OpTraits::accumulating adds to the gradient of input 0. May use output gradients as scratch.
  virtual void backward(Stream& stream) = 0;
};

/// Tensors that must keep their values from an op's forward to its backward.
struct BackwardNeeds {
  bool inputs = false;
  bool outputs = false;  ///< output 0; backward cannot read other outputs
};

/// An op without a device: its settings, fixed when the graph is built. OpTraits (op_traits.h) says what passes may do
/// with it.
class OpDefinition {
 public:
  virtual ~OpDefinition() = default;
  /// Name of the op type: its folder in `kernels/` ("dense") or one op of a folder with several ("gelu").
  virtual std::string_view type() const = 0;
  virtual BackwardNeeds backward_needs() const = 0;
  /// Creates the op for these tensors and the context's device. Must be thread-safe: several threads may call it at
  /// once. An executable, which is a graph with memory, calls it once or, if the batch is tiled, once per tile. Both
  /// arguments are valid only during the call; the memory they point to outlives the op. Errors: failed or usage (the
  /// op does not support the device).
  virtual std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const = 0;

  /// The number of the input that shares memory with output number `output`. The output then equals the input, and the
  /// op never writes it. Nullopt: the output has its own memory.
  virtual std::optional<int> output_shares_input(int /*output*/) const { return std::nullopt; }
  /// The number of the output whose gradient shares memory with the gradient of input number `input`: backward then
  /// works in place. Nullopt: this gradient has its own memory. Two inputs may share memory with the same output only
  /// in an op made by OpTraits::sharing_gradients, because the op that produces an input may use that input's gradient
  /// as scratch.
  virtual std::optional<int> gradient_shares_output(int /*input*/) const { return std::nullopt; }
};

}  // namespace carillon
