// Reduction: the order in which arrays are summed (SumOrder), and the number format of gradients that are sent between
// hosts (Wire). On CPUs, all sums over ranks and over tiles of a batch use these functions.
//
//   sequential   ((p0 + p1) + p2) + p3 ...
//   tree         ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + ...: a binary tree, divided at the largest power of two below
//                the count, recursively. A group of 2^k parts that begins at a multiple of 2^k is a whole subtree.
//                Therefore a tree over the sums of such groups gives the same bits as the whole tree.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

enum class SumOrder { sequential, tree };

/// Wire: the number format of gradients that CPU ranks send between hosts.
enum class Wire {
  fp32,
  bf16,  ///< halves the traffic. The sum of each host and the mean are rounded to 8 bits of precision; sums within a
         ///< host stay float32. GPU ranks do not support bf16
};

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in the order `order`. `out` may be
/// one of the parts.
void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out,
                  SumOrder order = SumOrder::sequential);

/// Elements per block of sum_blocks_in_order: 4 KiB, which fit in the L1 cache.
inline constexpr std::size_t sum_block_floats = 1024;

/// Computes the same sums as sum_in_order. Does not write them to an array, but passes each block of sums to
/// take(first, values). Several threads call `take` at the same time. Blocks begin at multiples of sum_block_floats;
/// the last one may be shorter.
void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t first, std::span<const float> values)>& take,
                         SumOrder order = SumOrder::sequential);

}  // namespace carillon
