// PackedRows: which elements of a matrix [rows, columns] a thread of a GPU processes.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"

namespace carillon {

/// Assigns to each thread a pack of columns in `rows_at_once` rows, for ForEachElement over count().
template <int n>
struct PackedRows {
  static constexpr std::uint32_t rows_at_once = 4;

  std::uint32_t rows = 0, packs = 0;  ///< packs: per row

  std::int64_t count() const { return std::int64_t{(rows + rows_at_once - 1) / rows_at_once} * packs; }
  /// Calls body(index of the pack's first element) for each of the thread's rows. `column`: column of that element.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_rows(std::int64_t i, const Body& body) const {
    const std::uint32_t index = static_cast<std::uint32_t>(i), first = index / packs * rows_at_once;
    const std::uint32_t end = first + rows_at_once < rows ? first + rows_at_once : rows;
    for (std::uint32_t row = first; row < end; ++row) {
      body((static_cast<std::int64_t>(row) * packs + index % packs) * n);
    }
  }
  CARILLON_HOST_DEVICE std::uint32_t column(std::int64_t i) const {
    return static_cast<std::uint32_t>(i) % packs * static_cast<std::uint32_t>(n);
  }
};

}  // namespace carillon
