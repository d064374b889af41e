// bias_relu_backward on a GPU; the formula is in bias_relu_backward.h.
//
// y, dy: [rows, columns] in f32 or bf16, all extents except the last flattened; db: [columns] in float32. y and dy
// start at multiples of 16 bytes.
#pragma once

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/shared/gradient_sums.h"

namespace carillon {

class BiasReluBackwardCuda {
 public:
  /// If `y` has no data, there is no ReLU.
  BiasReluBackwardCuda(Device& device, const Tensor& y, const Tensor& dy, const Tensor& db);

  /// Enqueues the kernel. The order of summation depends only on the shapes.
  void run(Stream& stream);

 private:
  Tensor y_, dy_, db_;
  GradientSumsMemory memory_;
};

}  // namespace carillon
