// Conv2dPlan: one of conv2d's three convolutions as a kernel of cuDNN, chosen when it is made. CUDA builds only.
//
// cuDNN's heuristic proposes kernels for the shapes and the GPU, fastest first; the plan is the first of them that
//   - gives the same bits on every run,
//   - multiplies as the Arithmetic says and sums in float32 (for fp32: no tensor cores; never by Winograd or Fourier),
//   - is compiled in the library, not on the spot: that would take seconds at every start, and its choice could not be
//     looked at without the GPU,
//   - needs no more workspace than there is.
// So the same on every run with the same GPU and library. Such kernels give gradients of weights in the type of their
// operands. They add float32 biases to float32 alone. A ReLU is not asked of them: those that keep a NaN
// (STRICT_NAN_PROP) are a slow one without tensor cores, and the others make it 0.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/conv2d/conv2d_layout.h"

namespace carillon {

/// y from x and weights; dW from x and dy; dx from dy and W.
enum class Conv2dPass { forward, forward_bias, weights_gradient, data_gradient };

struct Conv2dTask {
  Conv2dPass pass = Conv2dPass::forward;
  Conv2dLayout layout;
  DType type = DType::f32;  ///< of operands and result; biases are float32
  Arithmetic arithmetic = Arithmetic::fp32;
  std::size_t workspace_bytes = 0;  ///< available
};

/// The GPU that a plan is for: that of `handle`, or one that need not be there, by cuDNN's description of it in JSON
/// (the device property descriptor of cuDNN 9.8), with which a plan can be made but not run.
struct Conv2dTarget {
  cudnnHandle_t handle = nullptr;
  std::string_view device_json = {};
};

class Conv2dPlan {
 public:
  /// Memory by role; in a gradient's pass, the gradient takes the place of its tensor.
  struct Memory {
    void *x = nullptr, *weights = nullptr, *biases = nullptr, *y = nullptr;
  };

  /// Nothing when cuDNN has no such kernel, with its own words in `reason`.
  static std::unique_ptr<Conv2dPlan> find(const Conv2dTarget& target, const Conv2dTask& task, std::string& reason);
  ~Conv2dPlan();

  /// Enqueues it on the handle's stream. `workspace`: what the task says is available.
  void run(cudnnHandle_t handle, const Memory& memory, void* workspace) const;

  std::size_t workspace_bytes() const;
  /// cuDNN's name of the kernel and its parameters.
  std::string kernel() const;
  bool on_tensor_cores() const;

 private:
  struct Implementation;
  explicit Conv2dPlan(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace carillon
