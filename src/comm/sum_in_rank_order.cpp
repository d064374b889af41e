#include "src/comm/sum_in_rank_order.h"

#include <algorithm>

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

constexpr std::size_t floats_worth_a_thread = 16384;

/// Of elements [begin, end) of the parts to out[0], out[1], ...
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
    for (std::size_t i = 0; i < count; ++i) out[at - begin + i] = sums[i] * factor;
  }
}

}  // namespace

void sum_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out) {
  parallel_ranges(count, floats_worth_a_thread,
                  [&](std::size_t begin, std::size_t end) { sum_range(parts, begin, end, factor, out + begin); });
}

void sum_blocks_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor,
                              const std::function<void(std::size_t, std::span<const float>)>& take) {
  parallel_ranges(count, floats_worth_a_thread, [&](std::size_t begin, std::size_t end) {
    constexpr std::size_t block = 1024;  // 4 KiB: taken from the level 1 cache
    alignas(64) float values[block];
    for (std::size_t at = begin; at < end; at += block) {
      const std::size_t part = std::min(block, end - at);
      sum_range(parts, at, at + part, factor, values);
      take(at, {values, part});
    }
  });
}

}  // namespace carillon
