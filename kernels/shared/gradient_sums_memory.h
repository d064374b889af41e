// GradientSumsMemory: the memory that the kernel GradientSums needs in addition to its tensors.
#pragma once

#include "carillon/device/device.h"
#include "kernels/shared/gradient_sums.h"

namespace carillon {

class GradientSumsMemory {
 public:
  /// Allocates the memory for a kernel with the extents of `kernel`.
  template <typename Kernel>
  void allocate(Device& device, const Kernel& kernel) {
    if (kernel.row_blocks() < 2) return;
    block_sums_ = device.allocate(static_cast<std::size_t>(kernel.row_blocks() * kernel.columns) * sizeof(float));
    blocks_done_ = device.allocate(static_cast<std::size_t>(kernel.column_blocks()) * sizeof(std::uint32_t));
  }
  template <typename Kernel>
  Kernel attached(Kernel kernel) const {
    kernel.block_sums = static_cast<float*>(block_sums_.data());
    kernel.blocks_done = static_cast<std::uint32_t*>(blocks_done_.data());
    return kernel;
  }

 private:
  Buffer block_sums_, blocks_done_;  ///< empty if one block has all rows
};

}  // namespace carillon
