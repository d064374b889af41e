// The passes of conv2d on a CPU, in four implementations: direct (oneDNN), by Winograd's method (winograd.h), in bf16
// (bf16_conv2d.h), and in bf16 by direct passes in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/conv2d/conv2d.h"
#include "src/device/cpu_device.h"

namespace carillon {

/// One of conv2d's three convolutions: it computes y from x, dW from x and dz, or dx from dz.
class Conv2dPassCpu {
 public:
  virtual ~Conv2dPassCpu() = default;
  virtual void run() = 0;
};

/// Returns the biases of the op, or a tensor without data if the op has no biases.
inline Tensor biases_of(const OpTensors& tensors) {
  return tensors.parameters.size() < 2 ? Tensor{} : tensors.parameters[1];
}

/// The passes of one op; a pass that is not needed is null. The passes use the tensors of make_conv2d_cpu.
struct Conv2dPassesCpu {
  std::unique_ptr<Conv2dPassCpu> forward, weights_gradient, data_gradient;
};

Conv2dPassesCpu make_direct_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);
/// Makes the passes for bf16 activations and convolutions that are not plain. These passes convert the activations to
/// float32, round the weights to bf16, and run the direct passes.
Conv2dPassesCpu make_bf16_direct_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);
/// Requires that winograd_can returns true.
Conv2dPassesCpu make_winograd_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);

/// Divides the workspace of the device into aligned pieces for one pass. Sizes count floats.
class WorkspaceLayout {
 public:
  /// Adds a piece. Returns the offset of the piece in the workspace, in floats.
  std::size_t add(std::int64_t floats) {
    const std::size_t at = total_;
    total_ += aligned_float_count(static_cast<std::size_t>(floats));
    return at;
  }
  std::size_t bytes() const { return total_ * sizeof(float); }

 private:
  std::size_t total_ = 0;
};

}  // namespace carillon
