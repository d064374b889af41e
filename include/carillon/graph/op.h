// Op: one node of a network, with memory on one device. OpDefinition: the same node before the device is known.
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
  std::vector<Tensor> inputs, outputs;                    ///< activations
  std::vector<Tensor> input_gradients, output_gradients;  ///< gradients of the loss, in the activations' shapes. Empty
                                                          ///< outside training. d loss / d loss = 1 has no data
  std::vector<Tensor> parameters, parameter_gradients;    ///< gradients: empty outside training
  std::vector<Tensor> parameter_compute_copies = {};  ///< by parameter, up to date; empty: the op reads `parameters`
  std::vector<Tensor> buffers;                        ///< float32, kept from step to step
  /// [columns], float32: backward writes the column sums of input gradient 0 here, which are the bias gradient of the
  /// op before. Set only for ops with OpTraits::sums_input_gradient.
  Tensor input_gradient_sums = {};
  /// If not empty, backward writes the step sums (src/step/gradients/step_sums.h), among them the loss. Then forward
  /// may skip the loss. Set only for ops with OpTraits::writes_step_sums.
  std::span<float> step_sums = {};
};

/// Exchanges values between the ranks during a forward or backward pass, for example for synchronised batch norm.
class TowerLink {
 public:
  virtual ~TowerLink() = default;
  virtual int size() const = 0;
  /// Concatenates every rank's `own` in rank order. Collective: all ranks make the same calls in the same order, with
  /// equal lengths.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
};

struct OpContext {
  Device* device = nullptr;
  Arithmetic arithmetic = Arithmetic::fp32;
  bool training = false;             ///< if false, backward never runs, and the op only reads its buffers
  const StepInputs* step = nullptr;  ///< outlives the op
  TowerLink* towers = nullptr;       ///< outlives the op; null: one rank alone
};

class Op {
 public:
  virtual ~Op() = default;
  /// Enqueues outputs = f(inputs, parameters, buffers) and, in training, the change of the buffers.
  virtual void forward(Stream& stream) = 0;
  /// Enqueues input and parameter gradients, overwriting them. May use output gradients as scratch.
  virtual void backward(Stream& stream) = 0;
};

/// Tensors that must keep their values from an op's forward to its backward.
struct BackwardNeeds {
  bool inputs = false;
  bool outputs = false;
};

/// An op without a device: its settings, fixed when the graph is built. OpTraits (op_traits.h) says what passes may do
/// with it.
class OpDefinition {
 public:
  virtual ~OpDefinition() = default;
  /// Name of the op type: its folder in `kernels/` ("dense") or one op of a folder with several ("gelu").
  virtual std::string_view type() const = 0;
  virtual BackwardNeeds backward_needs() const = 0;
  /// Creates the op for these tensors and the context's device (kernels/shared/backend.h). The op may copy the
  /// pointers in the arguments, but must not refer to the arguments themselves. Called once per executable, or once per
  /// tile of the batch, by several threads at once (src/graph/batch_tiling.h).
  virtual std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const = 0;

  /// The input that output number `output` shares memory with. The output then equals the input, and the op never
  /// writes it.
  virtual std::optional<int> output_shares_input(int /*output*/) const { return std::nullopt; }
  /// If backward works in place for input number `input`: the output with the gradient that shares memory with the
  /// gradient of this input. Nullopt: the input's gradient has its own memory. Two inputs must not share with the same
  /// output, because the op that produces an input may use that input's gradient as scratch.
  virtual std::optional<int> gradient_shares_output(int /*input*/) const { return std::nullopt; }
};

}  // namespace carillon
