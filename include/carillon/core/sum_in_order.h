// sum_in_order: the sum of every reduction, over ranks and over tiles of a batch, in a fixed order.
//
//   sequential   ((p0 + p1) + p2) + p3 ...
//   tree         ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + ...: a binary tree, divided at the largest power of two below
//                the count, recursively. 2^k parts that begin at a multiple of 2^k are a whole subtree. Therefore the
//                tree over the sums of such blocks has the same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

enum class SumOrder { sequential, tree };

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out,
                  SumOrder order = SumOrder::sequential);

/// Elements of a block of sum_blocks_in_order: 4 KiB, which fit in the L1 cache.
inline constexpr std::size_t sum_block_floats = 1024;

/// As sum_in_order, without an output array: calls take(first, values) for each block, on several threads at once.
/// Blocks begin at multiples of sum_block_floats; the last one may be shorter.
void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t first, std::span<const float> values)>& take,
                         SumOrder order = SumOrder::sequential);

}  // namespace carillon
