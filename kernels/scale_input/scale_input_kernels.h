// The kernel of scale_input: one block per image.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// Writes the channels of each pixel. If the output has more channels, writes 0 to them. T: float or Bf16.
template <typename T>
struct ScaleInputKernel {
  using Shared = NoShared;
  static constexpr int threads = 256;
  static constexpr int phases = 1;

  StepTable table;
  float scale = 1.0f;
  T* output = nullptr;  ///< [batch, pixels, output_channels]
  std::int64_t batch = 0;
  std::uint32_t pixels = 1, channels = 1, output_channels = 1;

  int blocks() const { return static_cast<int>(batch); }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    const std::uint8_t* image = table.image(static_cast<std::size_t>(block));
    const std::uint32_t count = pixels * output_channels;
    T* out = output + static_cast<std::int64_t>(block) * count;
    for (auto i = static_cast<std::uint32_t>(thread); i < count; i += threads) {
      const std::uint32_t c = i % output_channels;
      const float value = c < channels ? static_cast<float>(image[i / output_channels * channels + c]) : 0.0f;
      out[i] = stored_as<T>(scale * value);
    }
  }
};

}  // namespace carillon
