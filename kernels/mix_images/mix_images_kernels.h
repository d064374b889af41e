// The kernel of mix_images: one block per image; each block repeats the draw.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/mixing.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct MixImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    Mixing mixing;
  };

  MixingParams params;
  StepTable table;
  const T* x = nullptr;  ///< [batch, height, width, channels]
  T* y = nullptr;        ///< the same
  std::int64_t batch = 0;
  std::int32_t channels = 1;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      if (thread == 0) shared.mixing = draw_mixing(params, table.header().first_position);
    } else {
      write_image(shared.mixing, block, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(const Mixing& mixing, std::int64_t sample, int thread) const {
    const std::int32_t row = params.width * channels, count = params.height * row;
    const T *const own = x + sample * count, *const other = x + mixed_with(sample, batch) * count;
    T* const out = y + sample * count;
    for (std::int32_t i = thread; i < count; i += threads) {
      if (mixing.cuts) {
        out[i] = mixing.is_cut(i / row, i % row / channels) ? other[i] : own[i];
      } else {
        out[i] = stored_as<T>(mixing.blend(to_float(own[i]), to_float(other[i])));
      }
    }
  }
};

}  // namespace carillon
