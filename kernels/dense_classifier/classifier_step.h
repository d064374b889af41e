// classifier_step: a training step of a small classifier on a GPU in three kernels.
//
//   x = s * pixels                         x: [batch, inputs]      s: the scale of scale_input
//   h = max(x W1 + b1, 0)                  h: [batch, hidden]      W1: [inputs, hidden], b1: [hidden]
//   z = h W2 + b2                          z: [batch, classes]     W2: [hidden, classes], b2: [classes]
//   loss = mean softmax cross-entropy      dz, dh: gradients of the loss with respect to z and to x W1 + b1
//   dz = (softmax(z) - one_hot(label)) / batch            dh = [h > 0] * dz W2^T
//   dW1 = s * pixels^T dh,  db1 = column sums of dh       dW2 = h^T dz,  db2 = column sums of dz
//
//   kernel                           blocks                          computes
//   HiddenProducts                   per 64 columns of W1 and        products of the block's inputs
//                                    56 inputs
//   LogitGradients                   per sample                      h, z, dz, dh; the last block: step sums
//   TileKernel<StoreGradients>, or   per 64 columns and 32 rows of   gradients; stores them, or updates the
//   TileKernel<TileUpdate<Rule>>     W1, and per 64 rows of W2       variables with them (src/optim/tile_update.h)
//
// After TileKernel<StoreGradients>, the kernels of the usual update run.
//
// A GPU launches the same graph op by op in 9 kernels or more. This step has three launches. It has never run on a
// GPU. Values differ from those of the ops by rounding: sums have another order, the softmax in dz is a division
// instead of a product with a reciprocal, and dW1 is scaled after its sum. Products are in float32 also with tf32. A
// NaN or infinity reaches the loss, as in the ops. All sums have a fixed order, so equal inputs give equal bits.
//
// The graph (classifier_form) and the settings choose this step, never a timing.
#pragma once

#include <memory>
#include <optional>

#include "carillon/device/device.h"
#include "carillon/graph/graph.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

struct ClassifierForm {
  std::int64_t batch = 0, inputs = 0, hidden = 0, classes = 0;
  float scale = 1.0f;
  int weights1 = -1, biases1 = -1, weights2 = -1, biases2 = -1;  ///< parameter indices
};

/// The form of a graph that the kernels can compute; nullopt: another graph. Requirements:
/// - The ops are scale_input, dense with biases and ReLU, dense with biases, softmax_cross_entropy. Each op reads the
///   output of the op before it. No dense layer is per position.
/// - The loss has no label smoothing, mixing, class weights or focal gamma.
/// - Activations are float32 (fp32 or tf32).
/// - batch <= 128, inputs <= 1024, hidden <= 1024, classes <= 16, hidden * classes <= 8192; `inputs` and `hidden` are
///   multiples of 4.
std::optional<ClassifierForm> classifier_form(const Graph& graph, Value loss);

struct GradientTiles;

/// The kernels with their memory. CUDA builds only. The functions only enqueue, and enqueue the same work in each step.
class ClassifierStepCuda {
 public:
  /// `parameters`: with gradients. `parameters` and `inputs` outlive this.
  ClassifierStepCuda(const ClassifierForm& form, Device& device, const ParameterStore& parameters,
                     const StepInputs& inputs);
  ~ClassifierStepCuda();

  /// Enqueues the forward pass, the loss and the gradients of the activations. Writes the step sums.
  void enqueue_activations(Stream& stream) const;
  /// After enqueue_activations: enqueues the gradients of all variables, and stores them.
  void enqueue_gradients(Stream& stream) const;
  /// The same gradients for a kernel that uses them without storing them (gradient_tiles.h).
  const GradientTiles& gradients() const;
  std::size_t memory_bytes() const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace carillon
