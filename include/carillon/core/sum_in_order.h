// The one sum behind every reduction, over ranks and over slices of a batch: all add through it, for the same bits.
//
//   sequential   ((p0 + p1) + p2) + p3 ...
//   tree         ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + ...: a binary tree, cut at the largest power of two below the
//                count, and so on. Blocks of 2^k parts that begin at a multiple of 2^k are whole subtrees of it: sums
//                of such blocks, as many parts of a tree of their own, come to the same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

enum class SumOrder { sequential, tree };

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void sum_in_order(std::span<const float* const> parts, std::size_t count, float factor, float* out,
                  SumOrder order = SumOrder::sequential);

/// The same values, without an array for all of them: take(first, values) block by block, on several threads at once.
void sum_blocks_in_order(std::span<const float* const> parts, std::size_t count, float factor,
                         const std::function<void(std::size_t first, std::span<const float> values)>& take,
                         SumOrder order = SumOrder::sequential);

}  // namespace carillon
