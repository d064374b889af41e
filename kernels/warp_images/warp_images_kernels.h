// The kernel of warp_images: one block per image; one of its threads draws.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/warp_images/warp_images_math.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct WarpImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    Warp warp;
  };

  WarpImagesMap map;
  StepTable table;
  const T* x = nullptr;  ///< [batch, height, width, channels]
  T* y = nullptr;        ///< the same
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      if (thread == 0) shared.warp = map.draw(table.header().first_position + static_cast<std::uint64_t>(block));
    } else {
      write_image(shared.warp, block, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(const Warp& warp, std::int64_t sample, int thread) const {
    const std::int32_t pixels = map.height * map.width;
    const T* const image = x + sample * pixels * map.channels;
    T* const out = y + sample * pixels * map.channels;
    for (std::int32_t i = thread; i < pixels; i += threads) {
      const auto read = [&](std::int32_t element) { return to_float(image[element]); };
      const auto write = [&](std::int32_t c, float value) { out[i * map.channels + c] = stored_as<T>(value); };
      map.interpolate(warp.at(i / map.width, i % map.width), read, write);
    }
  }
};

}  // namespace carillon
