// The random draws of dropout, which are equal on CPU and GPU, and the kernel for a GPU.
//
// Elements 4 i to 4 i + 3 of the sample at a stream position use the words of Philox block i. drop_path uses the first
// word of block 0 for all elements.
#pragma once

#include <cstdint>

#include "carillon/core/philox.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/dropout/dropout.h"
#include "kernels/shared/pack.h"

namespace carillon {

inline constexpr std::int64_t dropout_block = 4;  ///< number of elements per block of draws

/// Keeps or drops an element, depending on the element's random word.
struct DropoutFilter {
  std::uint64_t key;
  std::uint32_t least;  ///< smallest word that keeps an element: rate * 2^32
  float scale;          ///< factor for kept elements
  bool whole_samples;   ///< DropoutDraws::whole_samples

  explicit DropoutFilter(const DropoutDraws& draws)
      : key(draws.key),
        least(static_cast<std::uint32_t>(static_cast<double>(draws.rate) * 0x1p32)),
        scale(1.0f / (1.0f - draws.rate)),
        whole_samples(draws.whole_samples) {}

  CARILLON_HOST_DEVICE Philox4x32 words(std::uint64_t position, std::uint32_t block) const {
    Philox4x32 words = philox4x32(key, philox_counter(RandomPurpose::dropout, position, whole_samples ? 0 : block));
    if (whole_samples) words.word[1] = words.word[2] = words.word[3] = words.word[0];
    return words;
  }
  CARILLON_HOST_DEVICE float apply(float value, std::uint32_t word) const {
    return word >= least ? value * scale : 0.0f;
  }
};

/// T: float or Bf16. `whole_blocks`: true if the size of a sample is a multiple of dropout_block.
template <typename T, bool whole_blocks>
struct DropoutApply {
  static constexpr int n = static_cast<int>(dropout_block);

  DropoutFilter filter;
  StepTable table;
  std::uint32_t size = 0;   ///< number of elements per sample
  const T* from = nullptr;  ///< [batch, size]
  T* to = nullptr;          ///< [batch, size]; may be `from`

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
