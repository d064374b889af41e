// The kernel of scale_input: a block for each image.
#pragma once

#include "carillon/core/bf16.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct ScaleInputKernel {
  using Shared = NoShared;
  static constexpr int threads = 256;
  static constexpr int phases = 1;

  StepTable table;
  float scale = 1.0f;
  T* output = nullptr;  ///< [batch, count]
  std::int64_t batch = 0, count = 0;

  int blocks() const { return static_cast<int>(batch); }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    const std::uint8_t* image = table.image(static_cast<std::size_t>(block));
    T* out = output + block * count;
    for (std::int64_t i = thread; i < count; i += threads) out[i] = stored_as<T>(scale * static_cast<float>(image[i]));
  }
};

}  // namespace carillon
