// OpTraits: what graph passes, the executable and batch tiling may do with ops of one type.
//
// The passes and tiling read these traits, so that a new op needs no change in them.
//
// The op's folder holds one constant of this struct per op type. Its graph function passes the constant to
// Graph::add_op with the definition, and the graph keeps both in the node. Every member is optional, except
// writes_step_sums for a loss that runs on a GPU. An op without traits runs, but it is never fused, padded or tiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"

namespace carillon {

class OpDefinition;

/// An activation, as an op of its own or as the last operation of another op.
enum class ActivationKind { none, relu, gelu, silu };

struct OpTraits {
  using Definition = std::shared_ptr<const OpDefinition>;

  // What the op computes, for the ops that passes fuse into others.
  /// The activation that the op applies to its only input. None: the op is no activation.
  ActivationKind activation = ActivationKind::none;
  bool is_addition = false;  ///< output = input 0 + input 1

  // Fusion: passes merge an activation, an addition or a bias into a neighbouring op. Each function returns another
  // definition of the same C++ class, because the node keeps its traits. It returns null if this op does not support
  // the change.
  /// The definition of this op with an activation (OpTraits::activation) applied to its output.
  Definition (*with_activation)(const OpDefinition& op, ActivationKind activation) = nullptr;
  /// The definition of this op with a ReLU applied to its input. Returns null if the ReLU is not cheaper in this op
  /// than in the op that produces the input.
  Definition (*with_relu_before)(const OpDefinition& op) = nullptr;
  /// The definition of this op without its last parameter. This parameter is the biases, [columns], that the op adds to
  /// its output in its last operation. The columns of a tensor are its last extent, for example channels.
  Definition (*without_biases)(const OpDefinition& op) = nullptr;
  /// The definition of this op with an additional last parameter: biases, [columns], that it adds to its input. Returns
  /// null if the addition is not cheaper in this op than in the op that produces the input.
  Definition (*with_biases_before)(const OpDefinition& op) = nullptr;
  /// The definition of this op with an additional last input. The input has the shape of the output, and the op adds it
  /// to its output.
  Definition (*with_addend)(const OpDefinition& op) = nullptr;
  /// The definition of this op with its batch statistics computed over the batches of all ranks, in training.
  Definition (*synchronized)(const OpDefinition& op) = nullptr;
  /// The definition of an op that uses its buffers (running statistics) in training in the same way as in evaluation,
  /// and does not change them.
  Definition (*frozen)(const OpDefinition& op) = nullptr;

  // Gradients of values with several readers (src/graph/gradient_passes.h). As for fusion, each function that returns a
  // definition may return null.
  /// The definition of this op with an additional last output: input 0, in the memory of input 0. The gradients of
  /// input 0 and of the new output share memory, too. Before backward, this memory holds the gradient from the other
  /// readers; backward adds the gradient of this op. Returns null if the op cannot do this on `device` for an input 0
  /// of `type`.
  Definition (*accumulating)(const OpDefinition& op, DeviceKind device, DType type) = nullptr;
  /// For a GPU: the definition of this op with an additional last output, which the op neither reads nor writes. The
  /// gradient of the op's result is then the sum of the gradients of both outputs.
  Definition (*summing_gradients)(const OpDefinition& op) = nullptr;
  /// For a GPU: the definition of this op with the gradients of both inputs in the memory of the gradient of output 0,
  /// so that backward copies nothing.
  Definition (*sharing_gradients)(const OpDefinition& op) = nullptr;
  /// Whether backward on a GPU leaves the gradient of output 0 unchanged. No input gradient then shares memory with it.
  bool (*keeps_output_gradient)(const OpDefinition& op) = nullptr;

  // Padding on a GPU: the images at the start of a network get extra channels, which hold zeros.
  /// The channel count of input 0 that the op processes fastest, at least the channel count of `input`. `input`: shape
  /// of input 0 without padding; `type`: its type.
  std::int64_t (*preferred_channels)(const OpDefinition& op, const Shape& input, DType type) = nullptr;
  /// The op can produce an output with extra channels. Its input, if any, then has the same number of channels.
  bool pads_channels = false;

  // Layout, and work that an op does for another op.
  /// Format of the compute copy that the op reads on a GPU in place of parameter number `parameter`.
  ComputeCopyFormat (*compute_copy_format)(int parameter) = nullptr;
  /// Position, in the op's list of parameters, of the biases that the op adds last. Their gradient is the column sums
  /// of output gradient 0. Nullopt: the op has no such biases. If the op that reads output 0 computes the sums
  /// (sums_input_gradient), this parameter's gradient has no data.
  std::optional<int> (*column_summed_parameter)(const OpDefinition& op) = nullptr;
  /// Whether the op can write OpTensors::input_gradient_sums for an input 0 of this shape.
  bool (*sums_input_gradient)(DeviceKind kind, const Shape& input) = nullptr;
  /// Whether the op, which computes the loss, writes OpTensors::step_sums. Required of a loss on a GPU.
  bool (*writes_step_sums)(DeviceKind kind) = nullptr;

  // Batch tiling on a CPU: neighbouring ops process a few samples before they continue with the next samples.
  /// The op can process a part of the batch. Ignored if its tensors share memory (OpDefinition::output_shares_input,
  /// gradient_shares_output). Requirements:
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

/// Makes a trait of a const member function of a definition: {.with_activation = trait<&DenseDefinition::activated>}.
template <auto member>
inline constexpr auto* trait = &MemberTrait<member>::call;

}  // namespace carillon
