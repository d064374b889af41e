// The kernel of dropout on a GPU, forward and backward: each thread processes a block of draws.
#pragma once

#include <cstdint>

#include "carillon/graph/step_inputs.h"
#include "kernels/dropout/dropout_draw.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// T: float or Bf16. `whole_blocks`: the size of a sample is a multiple of dropout_block.
template <typename T, bool whole_blocks>
struct DropoutApply {
  static constexpr int n = static_cast<int>(dropout_block);

  DropoutFilter filter;
  StepTable table;
  std::uint32_t size = 0;   ///< elements per sample
  const T* from = nullptr;  ///< [batch, size]
  T* to = nullptr;          ///< [batch, size], may be `from`

  CARILLON_HOST_DEVICE std::uint32_t blocks_per_sample() const {
    return (size + static_cast<std::uint32_t>(n) - 1) / static_cast<std::uint32_t>(n);
  }
  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), sample = index / blocks_per_sample();
    const std::uint32_t block = index - sample * blocks_per_sample();
    const Philox4x32 words = filter.words(table.header().first_position + sample, block);
    const std::int64_t at = static_cast<std::int64_t>(sample) * size + static_cast<std::int64_t>(block) * n;
    if constexpr (whole_blocks) {
      Pack<float, n> values = load_floats<n>(from + at);
      for (int k = 0; k < n; ++k) values.at[k] = filter.apply(values.at[k], words.word[k]);
      store_floats(values, to + at);
    } else {
      for (int k = 0; k < n; ++k) {
        if (block * static_cast<std::uint32_t>(n) + static_cast<std::uint32_t>(k) >= size) continue;
        to[at + k] = stored_as<T>(filter.apply(to_float(from[at + k]), words.word[k]));
      }
    }
  }
};

}  // namespace carillon
