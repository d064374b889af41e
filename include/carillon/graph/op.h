// OpDefinition: one node of a network and its settings, without a device. Op: the node with memory on one device, made
// by OpDefinition::instantiate. OpTraits: states what graph passes, the executable and batch tiling may do with the ops
// of a type.
//
// Passes and tiling know ops only by their traits, so a new op requires no change in passes or tiling.
//
// The op's folder holds one OpTraits constant per op type. The function that adds the op passes the constant and the
// definition to Graph::add_op, and the graph keeps both in the node. Every member of OpTraits is optional. Exception: a
// loss that runs on a GPU must set writes_step_sums. An op without traits runs, but passes never fuse or pad it, and it
// is never tiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// The memory of an op. The op neither reads nor writes a tensor without data.
struct OpTensors {
  std::vector<Tensor> inputs, outputs;  ///< activations
  /// Gradients of the loss, in the activations' shapes. Empty outside training. A gradient that no op needs has no
  /// data. The output gradient of the loss is 1 by definition and has no data. If an op has several outputs, the
  /// gradient of an output that no op reads is 0 and has no data.
  std::vector<Tensor> input_gradients, output_gradients;
  std::vector<Tensor> parameters, parameter_gradients;  ///< parameter_gradients: empty outside training
  /// The compute copy of each parameter (parameters.h): a copy with the element type and memory layout of
  /// OpTraits::compute_copy_format. When the op runs, the copies equal the parameters: the update writes both, and an
  /// evaluation converts the parameters before its first batch. If the vector is empty (as in summaries of layers, and
  /// on CPUs) or an element has no data, the op reads `parameters`.
  std::vector<Tensor> parameter_compute_copies = {};
  std::vector<Tensor> buffers;  ///< buffers: float32, kept from step to step
  /// [columns], float32: backward writes the column sums of input gradient 0 here. These sums are the gradient of the
  /// biases of the op that produces input 0. Set only for ops with OpTraits::sums_input_gradient.
  Tensor input_gradient_sums = {};
  /// If this span is not empty, backward writes the loss and the other step sums to it, and then forward need not write
  /// the loss. step_sums[loss_sum] is the loss; step_sums[sync_sum] is StepHeader::request_sync of the step. Set only
  /// for ops with OpTraits::writes_step_sums.
  std::span<float> step_sums = {};
};

/// Exchanges values between the towers during a forward or backward pass. Synchronised batch norm uses it. A tower is
/// one rank's replica of the network with its device.
class TowerLink {
 public:
  virtual ~TowerLink() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;  ///< number of towers, which is the number of ranks
  /// For CPUs: concatenates every rank's `own` in rank order. Collective: all ranks make the same calls in the same
  /// order, with equal lengths.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
  /// For GPUs: enqueues a copy of every rank's row to all ranks. Collective, as gather. `rows`: [size()][row] in device
  /// memory; the contents may be arbitrary bits. A row has a multiple of 16 floats; row number rank() belongs to this
  /// rank.
  virtual void gather_rows(std::span<float> rows, Stream& stream) = 0;
};

struct OpContext {
  Device* device = nullptr;  ///< never null in OpDefinition::instantiate; outlives the op
  Arithmetic arithmetic = Arithmetic::fp32;
  bool training = false;             ///< if false, backward never runs, and the op only reads its buffers
  const StepInputs* step = nullptr;  ///< outlives the op
  TowerLink* towers = nullptr;       ///< outlives the op; null: the op computes as in a run with one rank
};

class Op {
 public:
  virtual ~Op() = default;
  /// Enqueues the computation outputs = f(inputs, parameters, buffers). In training, also enqueues the change of the
  /// buffers.
  virtual void forward(Stream& stream) = 0;
  /// Enqueues the computation of input and parameter gradients, which overwrite the old gradients. Exception: an op
  /// made by OpTraits::accumulating adds its result to the gradient of input 0. The op may use the memory of its output
  /// gradients as scratch.
  virtual void backward(Stream& stream) = 0;
};

/// States which tensors must keep their values from an op's forward to its backward.
struct BackwardNeeds {
  bool inputs = false;
  bool outputs = false;  ///< backward reads output 0; it cannot read other outputs
};

/// An op without a device: the settings of the op, which are fixed when the graph is built. OpTraits states what passes
/// may do with the op.
class OpDefinition {
 public:
  virtual ~OpDefinition() = default;
  /// Name of the op type: the name of its folder in `kernels/` ("dense"), or of one op of a folder that has several ops
  /// ("gelu").
  virtual std::string_view type() const = 0;
  virtual BackwardNeeds backward_needs() const = 0;
  /// Creates the op for these tensors and the context's device. Must be thread-safe: several threads may call it at the
  /// same time. An executable, which is a graph with memory, calls it once or, if the batch is tiled, once per tile.
  /// Both arguments are valid only during the call; the memory that the tensors use outlives the op. Errors: failed or
  /// usage (the op does not support the device).
  virtual std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const = 0;

  /// Returns i if output number `output` shares the memory of input i. The output then equals the input, and the op
  /// never writes the output. Nullopt: the output has its own memory.
  virtual std::optional<int> output_shares_input(int /*output*/) const { return std::nullopt; }
  /// Returns i if the gradient of input number `input` shares the memory of the gradient of output i. Backward then
  /// works in place. Nullopt: the gradient of the input has its own memory. Two inputs may share memory with the same
  /// output only in an op made by OpTraits::sharing_gradients, because the op that produces an input may use that
  /// input's gradient as scratch.
  virtual std::optional<int> gradient_shares_output(int /*input*/) const { return std::nullopt; }
};

/// An activation function. An activation function is an op, or the last operation of another op.
enum class ActivationKind { none, relu, gelu, silu };

struct OpTraits {
  using Definition = std::shared_ptr<const OpDefinition>;

  // What the op computes. Passes use these traits to fuse the op into other ops.
  /// The activation that the op computes from its only input. ActivationKind::none: the op is not an activation.
  ActivationKind activation = ActivationKind::none;
  bool is_addition = false;  ///< the op computes output = input 0 + input 1

  // Fusion: passes merge an activation, an addition or a bias into a neighbouring op. Each function returns another
  // definition of the same C++ class, because the node keeps its traits. It returns null if this op does not support
  // the change.
  /// Returns the definition of this op with an activation (OpTraits::activation) that it applies to its output.
  Definition (*with_activation)(const OpDefinition& op, ActivationKind activation) = nullptr;
  /// Returns the definition of this op with a ReLU that it applies to its input. Returns null if the op that produces
  /// the input can compute the ReLU at the same or a lower cost.
  Definition (*with_relu_before)(const OpDefinition& op) = nullptr;
  /// Returns the definition of this op without its last parameter. The last parameter is the biases, [columns], that
  /// the op adds to its output in its last operation. The columns of a tensor are its last extent, for example
  /// channels.
  Definition (*without_biases)(const OpDefinition& op) = nullptr;
  /// Returns the definition of this op with an additional last parameter: biases, [columns], that it adds to its input.
  /// Returns null if the op that produces the input can add the biases at the same or a lower cost.
  Definition (*with_biases_before)(const OpDefinition& op) = nullptr;
  /// Returns the definition of this op with an additional last input. The input has the shape of the output, and the op
  /// adds it to its output. Returns null if the op cannot do this on `device`.
  Definition (*with_addend)(const OpDefinition& op, DeviceKind device) = nullptr;
  /// Returns the definition of this op that, in training, computes its batch statistics over the batches of all ranks.
  Definition (*synchronized)(const OpDefinition& op) = nullptr;
  /// Returns the definition of this op as a frozen op: in training, it uses its buffers (running statistics) in the
  /// same way as in an evaluation, and does not change them.
  Definition (*frozen)(const OpDefinition& op) = nullptr;

  // Gradients of values with several readers (src/graph/passes.h). As for fusion, each function that returns a
  // definition may return null.
  /// Returns the definition of this op with an additional last output that equals input 0 and shares its memory. The
  /// gradients of input 0 and of the new output also share memory. Before backward, this memory holds the sum of the
  /// gradients from the other readers of input 0; backward adds the gradient from this op. Returns null if the op
  /// cannot do this on `device` for an input 0 of `type`.
  Definition (*accumulating)(const OpDefinition& op, DeviceKind device, DType type) = nullptr;
  /// For a GPU: returns the definition of this op with an additional last output, which the op neither reads nor
  /// writes. The gradient of the op's result is then the sum of the gradients of both outputs.
  Definition (*summing_gradients)(const OpDefinition& op) = nullptr;
  /// For a GPU: returns the definition of this op in which the gradients of both inputs share the memory of the
  /// gradient of output 0. Backward then needs no copy.
  Definition (*sharing_gradients)(const OpDefinition& op) = nullptr;
  /// True if backward on a GPU does not change the gradient of output 0. No input gradient then shares memory with the
  /// gradient of output 0.
  bool (*keeps_output_gradient)(const OpDefinition& op) = nullptr;

  // Padding on a GPU: the images at the start of a network get extra channels, which hold zeros.
  /// The channel count of input 0 that the op processes fastest. It is at least the channel count of `input`. `input`:
  /// shape of input 0 without padding; `type`: element type of input 0.
  std::int64_t (*preferred_channels)(const OpDefinition& op, const Shape& input, DType type) = nullptr;
  /// True: the op can produce an output with extra channels. Its input, if any, then has the same number of channels.
  bool pads_channels = false;

  // Memory layout, and work that an op does for another op.
  /// For a GPU: the format of the compute copy that the op reads instead of parameter number `parameter`.
  ComputeCopyFormat (*compute_copy_format)(int parameter) = nullptr;
  /// Returns the index of the biases in the op's list of parameters, if the op adds biases in its last operation. The
  /// gradient of the bias of a column is the sum of this column in the gradient of output 0. Returns nullopt if the op
  /// has no such biases. If the op that reads output 0 computes the sums (sums_input_gradient), this parameter's
  /// gradient has no data.
  std::optional<int> (*column_summed_parameter)(const OpDefinition& op) = nullptr;
  /// True if the op can write OpTensors::input_gradient_sums for an input 0 of this shape.
  bool (*sums_input_gradient)(DeviceKind kind, const Shape& input) = nullptr;
  /// Only for ops that compute the loss: true if the op writes OpTensors::step_sums. On a GPU, this must be true.
  bool (*writes_step_sums)(DeviceKind kind) = nullptr;

  // Batch tiling on a CPU: neighbouring ops process a few samples before they continue with the next samples.
  /// True: the op can process a part of the batch. Ignored if tensors of the op share memory
  /// (OpDefinition::output_shares_input, gradient_shares_output). Requirements:
  /// - The outputs and input gradients of a sample do not depend on the other samples, bit for bit.
  /// - The parameter gradients are sums over the samples.
  /// - The first extent of all inputs and outputs is the number of samples.
  /// - The op has no buffers.
  /// - The op does not read StepInputs, because it does not know the numbers of its samples in the batch.
  /// - The op accepts activations that are not aligned to tensor_alignment_bytes.
  bool samples_are_independent = false;
};

template <auto member>
struct MemberTrait;
template <typename Definition, typename Result, typename... Arguments, Result (Definition::*member)(Arguments...) const>
struct MemberTrait<member> {
  static Result call(const OpDefinition& op, Arguments... arguments) {
    return (static_cast<const Definition&>(op).*member)(std::forward<Arguments>(arguments)...);
  }
};

/// Makes a trait that calls a const member function of a definition: {.with_activation =
/// trait<&DenseDefinition::activated>}.
template <auto member>
inline constexpr auto* trait = &MemberTrait<member>::call;

}  // namespace carillon
