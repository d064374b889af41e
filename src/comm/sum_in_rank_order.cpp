#include "src/comm/sum_in_rank_order.h"

#include <algorithm>

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

CARILLON_SIMD void sum_range(std::span<const float* const> parts, std::size_t begin, std::size_t end, float factor,
                             float* out) {
  constexpr std::size_t block = 256;  // sums stay in registers and level 1 cache
  float sums[block];
  for (std::size_t at = begin; at < end; at += block) {
    const std::size_t count = std::min(block, end - at);
    for (std::size_t i = 0; i < count; ++i) sums[i] = parts[0][at + i];
    for (std::size_t part = 1; part < parts.size(); ++part) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += parts[part][at + i];
    }
    for (std::size_t i = 0; i < count; ++i) out[at + i] = sums[i] * factor;
  }
}

}  // namespace

void sum_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out) {
  parallel_ranges(count, 16384, [&](std::size_t begin, std::size_t end) { sum_range(parts, begin, end, factor, out); });
}

}  // namespace carillon
