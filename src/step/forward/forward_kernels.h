// The GPU's kernels around a forward pass without training: they write the views of images, and collect the outputs.
#pragma once

#include <cstdint>

#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"
#include "src/step/forward/image_views.h"

namespace carillon {

/// Writes a view of each image of the current batch, like write_view. One block writes one image.
struct WriteViewKernel {
  using Shared = NoShared;
  static constexpr int threads = 256;
  static constexpr int phases = 1;

  StepTable table;
  ViewMap map;
  std::int32_t channels = 1;
  std::uint8_t* views = nullptr;  ///< [batch, channels, height, width]
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    const std::uint8_t* const image = table.image(static_cast<std::size_t>(block));
    const std::int32_t count = channels * map.height * map.width;
    std::uint8_t* const view = views + static_cast<std::int64_t>(block) * count;
    for (std::int32_t i = thread; i < count; i += threads) {
      const std::int32_t x = i % map.width, line = i / map.width;
      const std::int32_t y = line % map.height, channel = line / map.height;
      view[i] = image[(channel * map.height + map.row(y)) * map.width + map.column(x)];
    }
  }
};

/// Adds weight * outputs to the sums of the current batch. At the last view of a batch, the block that finishes last
/// counts the batch as done. T: float or Bf16.
template <typename T>
struct CollectOutputsKernel {
  using Shared = NoShared;
  static constexpr int threads = 256;
  static constexpr int add_phase = 0, end_phase = 1;
  static constexpr int phases = end_phase + 1;

  StepProgress progress;
  const T* outputs = nullptr;  ///< [count]
  float* sums = nullptr;       ///< [progress.capacity][count]
  std::int64_t count = 0;
  float weight = 1.0f;
  bool is_first = true, is_last = true;  ///< whether it is the first or last view of the batch

  CARILLON_HOST_DEVICE int blocks() const { return static_cast<int>((count + threads - 1) / threads); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    if constexpr (phase == add_phase) {
      const std::int64_t i = static_cast<std::int64_t>(block) * threads + thread;
      const auto slot = static_cast<std::int64_t>(*progress.step_counter & (progress.capacity - 1));
      if (i >= count) return;
      float* const sum = sums + slot * count + i;
      *sum = (is_first ? 0.0f : *sum) + rounded_product(weight, to_float(outputs[i]));
    } else if (is_last && thread == 0 &&
               fetch_increment(progress.blocks_done) + 1 == static_cast<std::uint32_t>(blocks())) {
      *progress.blocks_done = 0;
      *progress.step_counter += 1;
    }
  }
};

}  // namespace carillon
