// TileOperands: a TileProduct and its memory, for tests of tile products.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/shared/bf16_tiles.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

/// Random operands. Their exponents are between -range and range. Each panel stores the right tile of the last step
/// first and the right tile of step 0 last; a gap follows each panel. The sums have random initial values.
struct TileOperands {
  static constexpr std::int64_t gap = 64;  ///< number of elements after each panel
  std::vector<Bf16> left, right;
  std::vector<const Bf16*> left_tiles;
  std::vector<std::int64_t> right_offsets;
  std::vector<float> sums;
  TileProduct product;  ///< refers to the arrays above

  TileOperands(int count, std::int64_t steps, float range, std::uint64_t seed, int panels = 1)
      : left(static_cast<std::size_t>(count * steps * tile_elements)),
        right(static_cast<std::size_t>(panels * (steps * tile_elements + gap))),
        sums(random_values(static_cast<std::size_t>(count * panels * tile_sums), seed + 2)) {
    fill(left, range, seed);
    fill(right, range, seed + 1);
    for (std::int64_t i = 0; i < count * steps; ++i) left_tiles.push_back(left.data() + i * tile_elements);
    for (std::int64_t step = steps; step-- > 0;) right_offsets.push_back(step * tile_elements);
    product = {.count = count,
               .panels = panels,
               .steps = steps,
               .left = left_tiles.data(),
               .right = right.data(),
               .panel_stride = steps * tile_elements + gap,
               .right_offsets = right_offsets.data(),
               .sums = sums.data()};
  }
  TileOperands(const TileOperands&) = delete;
  TileOperands& operator=(const TileOperands&) = delete;

 private:
  static void fill(std::vector<Bf16>& values, float range, std::uint64_t seed) {
    const std::vector<float> mantissas = random_values(values.size(), seed);
    const std::vector<float> exponents = random_values(values.size(), seed + 100, -range, range);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = to_bf16(std::ldexp(mantissas[i], static_cast<int>(exponents[i])));
    }
  }
};

}  // namespace carillon::testing
