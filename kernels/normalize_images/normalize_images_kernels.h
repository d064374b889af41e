// The kernel of normalize_images: one block per image.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "kernels/normalize_images/normalize_images_math.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct NormalizeImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    ImagePlacement placed;
  };

  StepTable table;
  NormalizeImagesMap map;
  T* output = nullptr;               ///< [batch, height, width, output_channels]
  std::int32_t output_channels = 3;  ///< channels beyond the map's are 0
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const auto sample = static_cast<std::size_t>(block);
    if constexpr (phase == 0) {
      if (thread == 0) shared.placed = map.placement(table.header().first_position + sample, table.record(sample));
    } else {
      write_image(sample, shared.placed, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(std::size_t sample, const ImagePlacement& placed, int thread) const {
    const std::int32_t count = output_channels * map.height * map.width;
    const std::uint8_t* const image = table.image(sample);
    T* const out = output + sample * static_cast<std::size_t>(count);
    for (std::int32_t i = thread; i < count; i += threads) {
      const std::int32_t c = i % output_channels, place = i / output_channels;
      const std::int32_t x = place % map.width, y = place / map.width;
      if (c >= map.channels) {
        out[i] = stored_as<T>(0.0f);
        continue;
      }
      const std::int32_t row = map.row_of(placed, y), column = map.column_of(placed, x);
      const bool is_black = row < 0 || column < 0;
      const std::uint8_t pixel = is_black ? std::uint8_t{0} : image[(c * map.height + row) * map.width + column];
      out[i] = stored_as<T>(map.is_cut(placed, y, x) ? 0.0f : map.value(c, pixel));
    }
  }
};

}  // namespace carillon
