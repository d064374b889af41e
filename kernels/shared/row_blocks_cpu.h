// Sums of columns over many rows on a CPU: blocks of rows are summed separately, and the blocks' sums are added in
// order. The shape alone fixes the order of every sum.
#pragma once

#include <algorithm>
#include <cstddef>

#include "carillon/core/tensor.h"

namespace carillon {

/// The division of `rows` rows into blocks.
struct RowBlocks {
  static constexpr std::size_t max_count = 128;

  std::size_t rows = 0, per_block = 1, count = 0;

  RowBlocks() = default;
  /// Blocks have at least `least` rows, except the last one.
  RowBlocks(std::size_t rows_, std::size_t least)
      : rows(rows_),
        per_block(std::max(least, (rows_ + max_count - 1) / max_count)),
        count((rows_ + per_block - 1) / per_block) {}

  std::size_t first_of(std::size_t block) const { return block * per_block; }
  std::size_t rows_of(std::size_t block) const { return std::min(per_block, rows - first_of(block)); }
};

/// to[c] = sums[c] + sums[stride + c] + ... for `count` blocks. `to`: float32.
void add_blocks(const float* sums, std::size_t count, std::size_t stride, const Tensor& to);

}  // namespace carillon
