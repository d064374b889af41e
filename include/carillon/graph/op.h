// Op: one node of a network, built for fixed shapes on one device. OpDefinition: the same before the device is known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"
#include "carillon/graph/operators.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// The memory an op works on. A tensor without data is not wanted: its op neither reads nor writes it.
struct OpTensors {
  std::vector<Tensor> inputs, outputs;                    ///< activations
  std::vector<Tensor> input_gradients, output_gradients;  ///< of the loss, same shapes; none outside training; the
                                                          ///< loss's own has no data and counts as 1
  std::vector<Tensor> parameters, parameter_gradients;    ///< gradients: none outside training
  std::vector<Tensor> parameter_compute_copies = {};      ///< by parameter, kept up to date; none: the op's affair
  std::vector<Tensor> buffers;                            ///< float32 that the op keeps from step to step
  /// [columns] of input gradient 0, float32: backward is to write its column sums, the bias gradient of the op before.
  Tensor input_gradient_sums = {};
  /// Backward is to write the step sums (src/step/gradients/step_sums.h); forward then need not find the loss. Else
  /// empty.
  std::span<float> step_sums = {};
};

/// What joins the ops of all towers in the middle of a pass.
class TowerLink {
 public:
  virtual ~TowerLink() = default;
  virtual int size() const = 0;
  /// Every tower's `own`, one behind the other by rank. Collective: all towers make the same calls, of equal lengths,
  /// in the same order.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
};

struct OpContext {
  Device* device = nullptr;
  Arithmetic arithmetic = Arithmetic::fp32;
  bool training = false;             ///< else backward never runs, and buffers are read and not written
  const StepInputs* step = nullptr;  ///< outlives the op
  TowerLink* towers = nullptr;       ///< outlives the op; null: it is alone
};

class Op {
 public:
  virtual ~Op() = default;
  /// Enqueues outputs = f(inputs, parameters, buffers), and, in training, the buffers' change.
  virtual void forward(Stream& stream) = 0;
  /// Enqueues input and parameter gradients, overwriting them. May use output gradients as scratch.
  virtual void backward(Stream& stream) = 0;
};

/// Tensors that must keep their values from an op's forward to its backward.
struct BackwardNeeds {
  bool inputs = false;
  bool outputs = false;
};

/// An op without a device: its parameters in the mathematical sense, fixed when the graph is built.
class OpDefinition {
 public:
  virtual ~OpDefinition() = default;
  /// The op's folder in `kernels/`, "dense", or which of the folder's ops it is: "gelu".
  virtual std::string_view type() const = 0;
  virtual BackwardNeeds backward_needs() const = 0;
  /// An op for these tensors, by device (kernels/shared/backend.h). Both arguments are gone when it returns; what they
  /// point to outlives the op. Called for each executable that the graph is run in, and there for each
  /// slice of the batch, by several threads at once (src/graph/batch_tiling.h).
  virtual std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const = 0;

  // What an op may do of other ops' work on the way (Executable).
  /// The parameter, of the op's, whose gradient is nothing but output gradient 0's column sums: a bias at its end.
  virtual std::optional<int> column_summed_parameter() const { return std::nullopt; }
  /// In what form the op, on a GPU, reads its parameter of this number besides.
  virtual ComputeCopyFormat compute_copy_format(int /*parameter*/) const { return ComputeCopyFormat::none; }
  /// Whether the op, on such a device, can take OpTensors::input_gradient_sums for an input of this shape.
  virtual bool sums_input_gradient(DeviceKind /*kind*/, const Shape& /*input*/) const { return false; }
  /// Whether the op, whose output is a loss, can take OpTensors::step_sums on such a device.
  virtual bool writes_step_sums(DeviceKind /*kind*/) const { return false; }

  // What passes over a graph (src/graph/passes.h), its sections (src/graph/batch_tiling.h) and the memory plan may do
  // with the op.
  /// Whether every sample is taken for itself: outputs and input gradients of some samples are what they are without
  /// the others, bit for bit, and parameter gradients are sums over the samples. Such an op shares no memory and keeps
  /// no state; its activations need not lie at multiples of tensor_alignment_bytes.
  virtual bool takes_samples_apart() const { return false; }
  /// This op with an activation behind it, an op of that `type`: "relu", "gelu"; null: it has no such form.
  virtual std::shared_ptr<const OpDefinition> with_activation_behind(std::string_view /*type*/) const {
    return nullptr;
  }
  /// This op with a ReLU before it, where that costs less than a ReLU behind the op before; null: it has no such form.
  virtual std::shared_ptr<const OpDefinition> with_relu_before() const { return nullptr; }
  /// This op without its last parameter, which it adds to its output's columns as its last deed; null: it has none
  /// such.
  virtual std::shared_ptr<const OpDefinition> without_biases() const { return nullptr; }
  /// This op with biases, a parameter behind its own, that are added to its input's columns; null: it has no such form,
  /// or a costlier one.
  virtual std::shared_ptr<const OpDefinition> with_biases_before() const { return nullptr; }
  /// How many channels the op, on a GPU, would have an input 0 of this shape and type have; those beyond its
  /// parameters' are 0. As many as there are: it takes no more.
  virtual std::int64_t preferred_channels(const Shape& input, DType /*type*/) const {
    return input.rank() > 0 ? input.extents().back() : 1;
  }
  /// Whether the op, on a GPU, gives an output of more channels than its images have, the others 0; where it has an
  /// input, of one with as many.
  virtual bool pads_channels() const { return false; }
  /// This op with what it finds over the batch, in training, found over the batches of all towers; null: it has no such
  /// form.
  virtual std::shared_ptr<const OpDefinition> over_all_towers() const { return nullptr; }
  /// Adds what the op computes in evaluation; the name of its output, or of its outputs if they are all the same.
  /// Errors: failed (an op that no evaluation has).
  virtual std::string in_operators(OperatorGraph& /*operators*/, const OpOperands& /*operands*/) const {
    fail(ExitCode::failed, "the op {} has no form in ONNX", type());
  }

  /// The input whose memory output number `output` shares, which then has its values and is never written.
  virtual std::optional<int> output_shares_input(int /*output*/) const { return std::nullopt; }
  /// The output whose gradient's memory the gradient of input number `input` shares: backward works in place. One input
  /// at most may share an output's: the op before it may use its gradient as scratch.
  virtual std::optional<int> gradient_shares_output(int /*input*/) const { return std::nullopt; }
};

}  // namespace carillon
