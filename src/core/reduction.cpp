#include "carillon/core/reduction.h"

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float), vectors = 4;
constexpr std::size_t max_depth = 32;  // depth of a tree that has at most 2^31 leaves

/// Sums elements [begin, end) of the parts and writes the sums to out[0], out[1], ... Each vector of sums stays in a
/// register.
CARILLON_SIMD void sum_range(std::span<const float* const> parts, std::size_t begin, std::size_t end, float factor,
                             float* out) {
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

/// Computes the same as sum_range in the order of a tree. Keeps a stack of block sums, with the largest block at the
/// bottom. Part i merges one block for each trailing one bit of i.
CARILLON_SIMD void sum_range_as_tree(std::span<const float* const> parts, std::size_t begin, std::size_t end,
                                     float factor, float* out) {
  std::size_t at = begin;
  for (; at + vectors * lanes <= end; at += vectors * lanes, out += vectors * lanes) {
    Lanes stack[max_depth][vectors];
    std::size_t height = 0;
    for (std::size_t part = 0; part < parts.size(); ++part, ++height) {
      for (std::size_t v = 0; v < vectors; ++v) {
        stack[height][v] = reinterpret_cast<const Lanes*>(parts[part] + at)[v];
      }
      for (std::size_t rest = part; rest % 2 == 1; rest /= 2, --height) {
        for (std::size_t v = 0; v < vectors; ++v) stack[height - 1][v] += stack[height][v];
      }
    }
    for (; height > 1; --height) {
      for (std::size_t v = 0; v < vectors; ++v) stack[height - 2][v] += stack[height - 1][v];
    }
    for (std::size_t v = 0; v < vectors; ++v) reinterpret_cast<Lanes*>(out)[v] = stack[0][v] * factor;
  }
  for (; at < end; ++at, ++out) {
    float stack[max_depth] = {};  // initialised only to avoid a warning of GCC 14
    std::size_t height = 0;
    for (std::size_t part = 0; part < parts.size(); ++part, ++height) {
      stack[height] = parts[part][at];
      for (std::size_t rest = part; rest % 2 == 1; rest /= 2, --height) stack[height - 1] += stack[height];
    }
    for (; height > 1; --height) stack[height - 2] += stack[height - 1];
    *out = stack[0] * factor;
  }
}

/// Returns the function that sums a range in this order. For two parts, both orders are the same, so the function does
/// not use the tree.
auto* range_sum(SumOrder order, std::size_t parts) {
  return order == SumOrder::tree && parts > 2 ? sum_range_as_tree : sum_range;
}

}  // namespace

void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out, SumOrder order) {
  auto* const sum = range_sum(order, parts.size());
  parallel_ranges(count, elementwise_grain,
                  [&](std::size_t begin, std::size_t end) { sum(parts, begin, end, factor, out + begin); });
}

void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t, std::span<const float>)>& take, SumOrder order) {
  auto* const sum = range_sum(order, parts.size());
  parallel_blocks(count, sum_block_floats, elementwise_grain, [&](std::size_t begin, std::size_t end) {
    alignas(64) float values[sum_block_floats];
    sum(parts, begin, end, factor, values);
    take(begin, {values, end - begin});
  });
}

}  // namespace carillon
