// PackedRows: which elements of a matrix [rows, columns] a thread of a GPU processes.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "kernels/shared/block_kernel.h"

namespace carillon {

/// Assigns to each thread a pack of columns in `rows_at_once` rows, for ForEachElement over count().
template <int n>
struct PackedRows {
  static constexpr std::uint32_t rows_at_once = 4;

  std::uint32_t rows = 0, packs = 0;  ///< packs: per row

  std::int64_t count() const { return std::int64_t{(rows + rows_at_once - 1) / rows_at_once} * packs; }
  /// Calls use(element, load(element)) for each of the thread's rows, where `element` is the index of the pack's first
  /// element. All loads are issued before the first use, because `use` may store. So the loads are in flight together.
  template <typename Load, typename Use>
  CARILLON_HOST_DEVICE void for_rows(std::int64_t i, const Load& load, const Use& use) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), first = index / packs * rows_at_once;
    const auto element = [&](std::uint32_t row) {
      return (static_cast<std::int64_t>(row) * packs + index % packs) * n;
    };
    decltype(load(i)) loaded[rows_at_once];
    CARILLON_UNROLL
    for (std::uint32_t k = 0; k < rows_at_once; ++k) {
      loaded[k] = load(element(first + k < rows ? first + k : rows - 1));  // no branch between the loads
    }
    CARILLON_UNROLL
    for (std::uint32_t k = 0; k < rows_at_once; ++k) {
      if (first + k < rows) use(element(first + k), loaded[k]);
    }
  }
  /// The column of the first element of pack `i`.
  CARILLON_HOST_DEVICE std::uint32_t column(std::int64_t i) const {
    return static_cast<std::uint32_t>(i) % packs * static_cast<std::uint32_t>(n);
  }
};

}  // namespace carillon
