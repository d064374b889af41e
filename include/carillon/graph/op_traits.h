// OpTraits: what graph passes, the executable, batch tiling and ONNX export may do with ops of one type.
//
// The op's folder holds one constant of this struct per op type. Its graph function passes the constant to
// Graph::add_op with the definition, and the graph keeps both in the node. Every member is optional. An op without
// traits runs, but it is never fused, padded or tiled, and it cannot be exported.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"
#include "carillon/graph/operators.h"

namespace carillon {

class OpDefinition;

struct OpTraits {
  using Definition = std::shared_ptr<const OpDefinition>;

  // Fusion (fuse_activations, defer_biases and synchronize_batches in src/graph/passes.h). Each function returns
  // another definition of the same C++ class, or null if this op does not support the change.
  /// This op with an activation of type `activation` ("relu", "gelu") applied to its output.
  Definition (*with_activation)(const OpDefinition& op, std::string_view activation) = nullptr;
  /// This op with a ReLU applied to its input. Returns null unless that costs less than a ReLU in the op before.
  Definition (*with_relu_before)(const OpDefinition& op) = nullptr;
  /// This op without its last parameter, a bias that it adds to the columns of its output in its last operation.
  Definition (*without_biases)(const OpDefinition& op) = nullptr;
  /// This op with one more, last parameter: a bias that it adds to the columns of its input. Returns null unless that
  /// costs less than the addition in the op before.
  Definition (*with_biases_before)(const OpDefinition& op) = nullptr;
  /// This op with its batch statistics computed over the batches of all ranks, in training.
  Definition (*synchronized)(const OpDefinition& op) = nullptr;

  // Padding on a GPU (pad_channels in src/graph/passes.h).
  /// Preferred (padded) channel count of input 0 with this unpadded shape and this type. Extra channels hold zeros.
  std::int64_t (*preferred_channels)(const Shape& input, DType type) = nullptr;
  /// The op can produce an output with extra channels, which hold zeros. Its input, if any, then has the same channels.
  bool pads_channels = false;

  // Layout and shared work (src/graph/executable.h, src/step/update/compute_copies.h).
  /// Format of the compute copy that the op reads on a GPU in place of parameter number `parameter`.
  ComputeCopyFormat (*compute_copy_format)(int parameter) = nullptr;
  /// Number of the parameter whose gradient is the column sums of output gradient 0: a bias that is added last.
  std::optional<int> (*column_summed_parameter)(const OpDefinition& op) = nullptr;
  /// Whether the op can write OpTensors::input_gradient_sums for an input of this shape.
  bool (*sums_input_gradient)(DeviceKind kind, const Shape& input) = nullptr;
  /// Whether the op, which computes the loss, writes OpTensors::step_sums. Required of a loss on a GPU.
  bool (*writes_step_sums)(DeviceKind kind) = nullptr;

  // Batch tiling (src/graph/batch_tiling.h).
  /// The op may process a part of the batch. The outputs and input gradients of a sample do not depend on the other
  /// samples, bit for bit, and the parameter gradients are sums over the samples. Such an op shares no memory, has no
  /// buffers, and accepts activations that are not aligned to tensor_alignment_bytes.
  bool samples_are_independent = false;

  // Export (src/onnx/onnx_export.h).
  /// Adds the ONNX operators that compute the op in evaluation. Returns the name of the ONNX output. It stands for all
  /// outputs of the op, which must be equal.
  std::string (*to_onnx)(const OpDefinition& op, OperatorGraph& operators, const OpOperands& operands) = nullptr;
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
