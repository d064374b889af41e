// Op: one node of a model, built for fixed shapes on one device. OpDefinition: the same before the device is known.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/batch.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_table.h"

namespace carillon {

struct UpdateStep {
  double learning_rate = 0.0;
  double average_decay = 0.0;  ///< already warmed up (optim/moving_average.h)
};

/// What differs from step to step. The CPU's ops keep a reference to it and read `batch` and `update` when they run; a
/// GPU's copy `table` and `progress` when they are made and find the same in its memory.
struct StepInputs {
  Batch batch;  ///< images and labels of this tower's samples
  UpdateStep update;
  StepTable table;
  StepProgress progress;
};

/// The memory an op works on. A tensor without data is not wanted: its op neither reads nor writes it.
struct OpTensors {
  std::vector<Tensor> inputs, outputs;                    ///< activations
  std::vector<Tensor> input_gradients, output_gradients;  ///< of the loss, same shapes; none outside training
  std::vector<Tensor> parameters, parameter_gradients;
};

struct OpContext {
  Device* device = nullptr;
  const StepInputs* step = nullptr;
};

class Op {
 public:
  virtual ~Op() = default;
  /// Enqueues outputs = f(inputs, parameters).
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
  /// The op's folder in `kernels/`: "dense".
  virtual std::string_view type() const = 0;
  virtual BackwardNeeds backward_needs() const = 0;
  /// Whether the op takes its input through the ReLU of the layer before it.
  virtual bool applies_relu_to_input() const { return false; }
  virtual std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const = 0;
};

}  // namespace carillon
