// The random draws of dropout, equal on CPU and GPU: elements 4 i to 4 i + 3 of the sample at a stream position use the
// words of Philox block i. drop_path uses the first word of block 0 for all elements.
#pragma once

#include <cstdint>

#include "carillon/core/philox.h"
#include "kernels/dropout/dropout.h"

namespace carillon {

inline constexpr std::int64_t dropout_block = 4;  ///< elements per block of draws

/// Applies an element's word to the element.
struct DropoutFilter {
  std::uint64_t key;
  std::uint32_t least;  ///< least word that keeps an element: rate 2^32
  float scale;          ///< factor for kept elements
  bool whole_samples;   ///< drop_path

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

}  // namespace carillon
