#include "carillon/core/sum_in_order.h"

#include <algorithm>

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

/// Of elements [begin, end) of the parts to out[0], out[1], ... A vector's sum stays in a register over all parts.
CARILLON_SIMD void sum_range(std::span<const float* const> parts, std::size_t begin, std::size_t end, float factor,
                             float* out) {
  typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
  constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float), vectors = 4;
  std::size_t at = begin;
  for (; at + vectors * lanes <= end; at += vectors * lanes, out += vectors * lanes) {
    Lanes sums[vectors];
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = reinterpret_cast<const Lanes*>(parts[0] + at)[v];
    for (std::size_t part = 1; part < parts.size(); ++part) {
      for (std::size_t v = 0; v < vectors; ++v) sums[v] += reinterpret_cast<const Lanes*>(parts[part] + at)[v];
    }
    for (std::size_t v = 0; v < vectors; ++v) reinterpret_cast<Lanes*>(out)[v] = sums[v] * factor;
  }
  for (; at < end; ++at, ++out) {
    float sum = parts[0][at];
    for (std::size_t part = 1; part < parts.size(); ++part) sum += parts[part][at];
    *out = sum * factor;
  }
}

}  // namespace

void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out) {
  parallel_ranges(count, elementwise_grain,
                  [&](std::size_t begin, std::size_t end) { sum_range(parts, begin, end, factor, out + begin); });
}

void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t, std::span<const float>)>& take) {
  parallel_ranges(count, elementwise_grain, [&](std::size_t begin, std::size_t end) {
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
