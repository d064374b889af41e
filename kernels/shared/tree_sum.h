// Sums of flat arrays on a GPU, in the binary tree of carillon/core/sum_in_order.h. CUDA builds only.
//
// Each element is added in the order of SumOrder::tree and multiplied once by a factor. So the bits are those of
// sum_in_order on a CPU. The functions only enqueue.
#pragma once

#include <bit>
#include <cstddef>

#include "carillon/device/device.h"
#include "kernels/shared/tree_sum_kernels.h"

namespace carillon {

/// Levels of AddTreeLeaf::waiting that a tree over `leaves` leaves requires.
constexpr std::size_t tree_levels(std::uint32_t leaves) { return static_cast<std::size_t>(std::bit_width(leaves - 1)); }

/// Enqueues the addition of one leaf. Leaves 0, 1, ... of a tree in this order.
void add_tree_leaf_cuda(const AddTreeLeaf& leaf, Stream& stream);
/// Enqueues the sum over ranks.
void sum_ranks_as_tree_cuda(const SumRanksAsTree& sum, Stream& stream);

}  // namespace carillon
