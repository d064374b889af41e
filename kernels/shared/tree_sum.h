// Adds flat arrays on a GPU, in the order of the binary tree of carillon/core/reduction.h. The file has the kernels,
// which process each element, and, in CUDA builds, the functions that enqueue them.
//
// Each element is added in the order of SumOrder::tree and multiplied once by a factor. Therefore the result has the
// same bits as sum_in_order on a CPU. In the kernels, `i` counts elements.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/device/device.h"

namespace carillon {

/// Adds leaf number `leaf` of a tree. Level l of `waiting` holds a sum of 2^l leaves. This sum waits for the sum of the
/// next 2^l leaves. When leaf i is added, one sum is completed for each trailing one bit of i. When the last leaf is
/// added, all sums are completed.
struct AddTreeLeaf {
  const float* values = nullptr;  ///< [count] values of the leaf
  float* waiting = nullptr;       ///< [levels][count]
  float* result = nullptr;        ///< [count] factor * sum, which is written when the last leaf is added; may be
                                  ///< `values`
  std::int64_t count = 0;
  std::uint32_t leaf = 0;
  bool is_last = false;
  float factor = 1.0f;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = values[i];
    float* level = waiting + i;
    for (std::uint32_t rest = leaf; is_last ? rest != 0 : rest % 2 == 1; rest /= 2, level += count) {
      if (rest % 2 == 1) sum = *level + sum;
    }
    if (is_last) {
      result[i] = sum * factor;
    } else {
      *level = sum;
    }
  }
};

/// Sets own = factor * the sum of the parts of all ranks, added as a tree. In memory, the sum of 2, 4, ... parts
/// replaces the first of these parts.
struct SumRanksAsTree {
  float* own = nullptr;     ///< [count] the part of rank `rank`; receives the result
  float* others = nullptr;  ///< [ranks][count] the parts of the other ranks, overwritten; row `rank` is not used
  std::int64_t count = 0;
  std::uint32_t rank = 0, ranks = 1;
  float factor = 1.0f;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    for (std::uint32_t width = 1; width < ranks; width *= 2) {
      for (std::uint32_t first = 0; first + width < ranks; first += 2 * width) part(first, i) += part(first + width, i);
    }
    own[i] = part(0, i) * factor;
  }

 private:
  CARILLON_HOST_DEVICE float& part(std::uint32_t of, std::int64_t i) const {
    return of == rank ? own[i] : others[of * count + i];
  }
};

/// Returns the number of levels of AddTreeLeaf::waiting that a tree with `leaves` leaves needs.
constexpr std::size_t tree_levels(std::uint32_t leaves) { return static_cast<std::size_t>(std::bit_width(leaves - 1)); }

/// Enqueues the addition of one leaf. The leaves of a tree must be added in the order 0, 1, ...
void add_tree_leaf_cuda(const AddTreeLeaf& leaf, Stream& stream);
/// Enqueues the sum over the ranks.
void sum_ranks_as_tree_cuda(const SumRanksAsTree& sum, Stream& stream);

}  // namespace carillon
