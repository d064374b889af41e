// Sums of flat arrays on a GPU, in the binary tree of carillon/core/sum_in_order.h. CUDA builds only.
//
// Each element is added in the order of SumOrder::tree and multiplied once by a factor. Therefore the result has the
// same bits as sum_in_order on a CPU. The functions only enqueue.
#pragma once

#include <bit>
#include <cstddef>

#include "carillon/device/device.h"
#include "kernels/shared/tree_sum_kernels.h"

namespace carillon {

/// The number of levels of AddTreeLeaf::waiting that a tree with `leaves` leaves needs.
constexpr std::size_t tree_levels(std::uint32_t leaves) { return static_cast<std::size_t>(std::bit_width(leaves - 1)); }

/// Enqueues the addition of one leaf. The leaves of a tree must be added in the order 0, 1, ...
void add_tree_leaf_cuda(const AddTreeLeaf& leaf, Stream& stream);
/// Enqueues the sum over ranks.
void sum_ranks_as_tree_cuda(const SumRanksAsTree& sum, Stream& stream);

}  // namespace carillon
