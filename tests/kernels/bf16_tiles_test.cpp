// Compares the bits of Bf16TileKernels, for every instruction set of this processor, with the definitions in the
// headers.
#include "kernels/shared/bf16_tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "carillon/device/device.h"
#include "src/core/process.h"
#include "tests/support/isa_name.h"
#include "tests/support/tile_operands.h"

namespace carillon::testing {
namespace {

float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
float widened(Bf16 x) { return flushed(to_float(x)); }

/// Returns `sum` plus the 32 products of `left` with column `column` of the tile `right`, added in the order of the
/// instruction VDPBF16PS.
float sum_in_pairs(float sum, const Bf16* left, const Bf16* right, std::int64_t column) {
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    for (const std::int64_t k : {1, 0}) {
      sum = flushed(std::fma(widened(left[2 * pair + k]), widened(right[pair * 32 + 2 * column + k]), flushed(sum)));
    }
  }
  return sum;
}

/// Returns `sum` plus the same 32 products as sum_in_pairs, but added in the order of the instruction TDPBF16PS.
float sum_in_chains(float sum, const Bf16* left, const Bf16* right, std::int64_t column) {
  float even = 0.0f, odd = 0.0f;
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    even = flushed(std::fma(widened(left[2 * pair]), widened(right[pair * 32 + 2 * column]), even));
    odd = flushed(std::fma(widened(left[2 * pair + 1]), widened(right[pair * 32 + 2 * column + 1]), odd));
  }
  return flushed(flushed(sum) + flushed(even + odd));
}

struct Operands : TileOperands {
  using TileOperands::TileOperands;

  std::vector<float> expected(Isa isa) const {
    std::vector<float> all = sums;
    if (!product.add) std::ranges::fill(all, 0.0f);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(all.size()); ++i) {
      float& sum = all[static_cast<std::size_t>(i)];
      sum = isa == Isa::avx512_bf16 ? sum_of_chains(i, sum) : sum_of_steps(i, sum);
    }
    return all;
  }

 private:
  const Bf16* left_row(std::int64_t step, std::int64_t i) const {
    const std::int64_t tile = i / tile_sums / product.panels;
    return left_tiles[static_cast<std::size_t>(step * product.count + tile)] + i % tile_sums / 16 * tile_depth;
  }
  const Bf16* right_tile(std::int64_t step, std::int64_t i) const {
    const std::int64_t panel = i / tile_sums % product.panels;
    return right.data() + panel * product.panel_stride + right_offsets[static_cast<std::size_t>(step)];
  }
  /// Returns element i of the product's sums after all steps, added in AMX's order. `sum`: the element's value before
  /// the first step.
  float sum_of_steps(std::int64_t i, float sum) const {
    for (std::int64_t step = 0; step < product.steps; ++step) {
      sum = sum_in_chains(sum, left_row(step, i), right_tile(step, i), i % 16);
    }
    return sum;
  }
  /// Returns element i of the product's sums after all steps, added in the order of AVX512-BF16. `sum`: the element's
  /// value before the first step.
  float sum_of_chains(std::int64_t i, float sum) const {
    const auto chain_of = [&](std::int64_t step) {
      return avx512_bf16_chain(right_offsets[static_cast<std::size_t>(step)]);
    };
    for (std::int64_t step = 0; step < product.steps;) {
      const bool overwrites = step == 0 && !product.add;
      const std::int64_t chain = chain_of(step);
      float added = 0.0f;
      for (; step < product.steps && chain_of(step) == chain; ++step) {
        added = sum_in_pairs(added, left_row(step, i), right_tile(step, i), i % 16);
      }
      sum = overwrites ? added : flushed(flushed(sum) + added);
    }
    return sum;
  }
};

void expect_equal_bits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
    }
  }
}

class Bf16Tiles : public ::testing::TestWithParam<Isa> {
 protected:
  Bf16Tiles() { flush_denormals(); }
  const Bf16TileKernels& kernels() const { return bf16_tile_kernels(GetParam()); }
  void multiply(const TileProduct& product) const {
    kernels().begin();
    kernels().multiply(product);
    kernels().end();
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, Bf16Tiles, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa_name(isa.param); });

TEST_P(Bf16Tiles, SumInTheDefinedOrder) {
  for (int count = 1; count <= TileProduct::most_left(1); ++count) {
    for (const float range : {2.0f, 20.0f, 70.0f}) {
      Operands operands(count, count == 2 ? 19 : 5, range, static_cast<std::uint64_t>(count));
      const std::vector<float> expected = operands.expected(GetParam());
      multiply(operands.product);
      expect_equal_bits(operands.sums, expected);
    }
  }
}

TEST_P(Bf16Tiles, SumTwoPanelsInTheDefinedOrder) {
  for (int count = 1; count <= TileProduct::most_left(2); ++count) {
    Operands operands(count, count == 2 ? 19 : 5, 20.0f, static_cast<std::uint64_t>(count), 2);
    const std::vector<float> expected = operands.expected(GetParam());
    multiply(operands.product);
    expect_equal_bits(operands.sums, expected);
  }
}

TEST_P(Bf16Tiles, AddToSums) {
  for (const int panels : {1, 2}) {
    Operands operands(3, 3, 3.0f, 9, panels);
    operands.product.add = true;
    const std::vector<float> expected = operands.expected(GetParam());
    multiply(operands.product);
    expect_equal_bits(operands.sums, expected);
  }
}

TEST_P(Bf16Tiles, AreZeroAfterNoSteps) {
  Operands operands(3, 0, 1.0f, 9, 2);
  multiply(operands.product);
  expect_equal_bits(operands.sums, std::vector<float>(6 * tile_sums));
}

/// Returns `before` plus the dot product of a row and a column. Their first elements are the pairs (left, right) of
/// `products`; the remaining elements are 0.
float sum_of(const Bf16TileKernels& kernels, const std::vector<std::pair<float, float>>& products, float before) {
  Operands operands(1, 1, 0.0f, 1);
  std::ranges::fill(operands.left, Bf16{0});
  std::ranges::fill(operands.right, Bf16{0});
  for (std::size_t k = 0; k < products.size(); ++k) {
    operands.left[k] = to_bf16(products[k].first);
    operands.right[k / 2 * 32 + k % 2] = to_bf16(products[k].second);
  }
  operands.sums[0] = before;
  operands.product.add = true;
  kernels.begin();
  kernels.multiply(operands.product);
  kernels.end();
  return operands.sums[0];
}

TEST_P(Bf16Tiles, CountDenormalsAsZero) {
  constexpr float least = std::numeric_limits<float>::min(), denormal = 0x1p-127f;
  EXPECT_EQ(sum_of(kernels(), {{denormal, 0x1p100f}}, 0.0f), 0.0f) << "left operand";
  EXPECT_EQ(sum_of(kernels(), {{0x1p100f, denormal}}, 0.0f), 0.0f) << "right operand";
  EXPECT_EQ(sum_of(kernels(), {{0x1p-70f, 0x1p-70f}}, 0.0f), 0.0f) << "product";
  EXPECT_EQ(sum_of(kernels(), {{1.5f, least}, {-1.0f, least}}, 0.0f), 0.0f) << "sum of both products";
  EXPECT_EQ(sum_of(kernels(), {{1.0f, 0.0f}}, denormal), 0.0f) << "sum before";
  EXPECT_EQ(sum_of(kernels(), {{-1.0f, least}}, 1.5f * least), 0.0f) << "result";
  EXPECT_EQ(sum_of(kernels(), {{1.0f, least}}, least), 2.0f * least) << "no denormal";
}

TEST_P(Bf16Tiles, PassOnNanAndInfinity) {
  Operands operands(3, 2, 1.0f, 5);
  operands.left[7] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  operands.left[100] = to_bf16(std::numeric_limits<float>::infinity());
  operands.right[33] = to_bf16(-std::numeric_limits<float>::infinity());
  const std::vector<float> expected = operands.expected(GetParam());
  multiply(operands.product);
  expect_equal_bits(operands.sums, expected);
  EXPECT_TRUE(std::isnan(operands.sums[0]));
}

/// A matrix of floats and its copy in bf16. The last row ends where the arrays end, so a read beyond the last column of
/// that row is outside of the array.
struct Source {
  std::vector<float> floats;
  std::vector<Bf16> rounded;
  std::int64_t rows, columns;

  Source(std::int64_t height, std::int64_t width) : rows(height), columns(width) {
    floats = random_values(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1) * columns), 11);
    if (floats.size() > 2) floats[2] = std::numeric_limits<float>::quiet_NaN();
    for (const float value : floats) rounded.push_back(to_bf16(value));
  }
  TileSource<float> of_floats() const { return {floats.data(), columns, rows}; }
  TileSource<Bf16> of_bf16() const { return {rounded.data(), columns, rows}; }
  Bf16 at(std::int64_t row, std::int64_t column) const {
    if (row >= rows || column >= columns) return {0};
    return rounded[static_cast<std::size_t>(row * columns + column)];
  }
};

constexpr Bf16 untouched{0x1234};

void expect_left_tiles(const Source& source, const std::vector<Bf16>& packed) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(packed.size()); ++i) {
    const std::int64_t tile = i / 600, row = i % 600 / 32, column = tile * 32 + i % 600 % 32;
    const Bf16 expected = i % 600 < tile_elements ? source.at(row, column) : untouched;
    ASSERT_EQ(packed[static_cast<std::size_t>(i)].bits, expected.bits) << i;
  }
}

void expect_right_halves(const Source& source, const std::vector<Bf16>& packed) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(packed.size()); ++i) {
    const std::int64_t at = i % 300, row = at / 32 * 2 + at % 2, column = i / 300 * 16 + at % 32 / 2;
    ASSERT_EQ(packed[static_cast<std::size_t>(i)].bits, (at < 256 ? source.at(row, column) : untouched).bits) << i;
  }
}

TEST_P(Bf16Tiles, PackEveryCountOfRowsAndColumns) {
  for (std::int64_t rows = 0; rows <= 16; ++rows) {
    for (const std::int64_t columns : {1, 15, 16, 17, 31, 32, 33, 64, 70}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const Source source(rows, columns);
      const auto left_size = static_cast<std::size_t>((columns + 31) / 32 * 600),
                 right_size = static_cast<std::size_t>((columns + 15) / 16 * 300);
      std::vector<Bf16> packed(left_size, untouched);
      kernels().pack_left(source.of_bf16(), columns, packed.data(), 600);
      expect_left_tiles(source, packed);
      packed.assign(left_size, untouched);
      kernels().pack_left_floats(source.of_floats(), columns, packed.data(), 600);
      expect_left_tiles(source, packed);
      packed.assign(right_size, untouched);
      kernels().pack_right(source.of_bf16(), columns, packed.data(), 300);
      expect_right_halves(source, packed);
      packed.assign(right_size, untouched);
      kernels().pack_right_floats(source.of_floats(), columns, packed.data(), 300);
      expect_right_halves(source, packed);

      packed.assign(static_cast<std::size_t>(columns * 20), untouched);
      kernels().pack_transposed(source.of_bf16(), columns, packed.data(), 20);
      for (std::int64_t i = 0; i < columns * 20; ++i) {
        const Bf16 expected = i % 20 < 16 ? source.at(i % 20, i / 20) : untouched;
        ASSERT_EQ(packed[static_cast<std::size_t>(i)].bits, expected.bits) << i;
      }
    }
  }
}

TEST_P(Bf16Tiles, TransposePairs) {
  std::vector<Bf16> tile(tile_elements), left;
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i].bits = static_cast<std::uint16_t>(i);
  left = tile;
  kernels().transpose_pairs(tile.data());
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t k = 0; k < 32; ++k) EXPECT_EQ(tile[k / 2 * 32 + 2 * row + k % 2].bits, left[row * 32 + k].bits);
  }
}

/// Returns the element in row `row` and column `column` of the matrix that two panels of sums form side by side.
float sum_at(const std::vector<float>& sums, std::int64_t row, std::int64_t column) {
  return sums[static_cast<std::size_t>(column / 16 * tile_sums + row * 16 + column % 16)];
}

TEST_P(Bf16Tiles, WriteSums) {
  const std::vector<float> sums = random_values(2 * tile_sums, 1);
  for (const std::int64_t columns : {1, 7, 16, 17, 25, 32}) {
    std::vector<float> target(16 * 40, 9.0f);
    kernels().write_sums(sums.data(), {target.data(), 40, 5, columns});
    for (std::int64_t i = 0; i < 16 * 40; ++i) {
      const std::int64_t row = i / 40, column = i % 40;
      const bool is_written = row < 5 && column < columns;
      ASSERT_EQ(target[static_cast<std::size_t>(i)], is_written ? sum_at(sums, row, column) : 9.0f) << i;
    }
  }
}

TEST_P(Bf16Tiles, WriteRoundedSumsWithBiasAndRelu) {
  const std::vector<float> sums = random_values(2 * tile_sums, 1), bias = random_values(32, 2);
  for (const bool relu : {false, true}) {
    for (const std::int64_t columns : {1, 7, 16, 17, 25, 32}) {
      std::vector<Bf16> target(16 * 40, untouched);
      kernels().write_rounded(sums.data(), {.bias = relu ? bias.data() : nullptr, .relu = relu},
                              {target.data(), 40, 5, columns});
      for (std::int64_t i = 0; i < 16 * 40; ++i) {
        const std::int64_t row = i / 40, column = i % 40;
        const float sum = column < 32 ? sum_at(sums, row, column) : 0.0f;
        const float value = relu ? std::max(sum + bias[static_cast<std::size_t>(column % 32)], 0.0f) : sum;
        ASSERT_EQ(target[static_cast<std::size_t>(i)].bits,
                  (row < 5 && column < columns ? to_bf16(value) : untouched).bits)
            << i;
      }
    }
  }
}

TEST_P(Bf16Tiles, AddRoundedSumsToTheTarget) {
  const std::vector<float> sums = random_values(2 * tile_sums, 1), old = random_values(16 * 40, 2);
  for (const std::int64_t columns : {1, 7, 16, 17, 25, 32}) {
    std::vector<Bf16> target;
    for (const float value : old) target.push_back(to_bf16(value));
    kernels().write_rounded(sums.data(), {.accumulate = true}, {target.data(), 40, 5, columns});
    for (std::int64_t i = 0; i < 16 * 40; ++i) {
      const std::int64_t row = i / 40, column = i % 40;
      const Bf16 before = to_bf16(old[static_cast<std::size_t>(i)]);
      const bool is_written = row < 5 && column < columns;
      ASSERT_EQ(target[static_cast<std::size_t>(i)].bits,
                (is_written ? to_bf16(sum_at(sums, row, column) + to_float(before)) : before).bits)
          << i;
    }
  }
}

TEST_P(Bf16Tiles, WriteEqualValuesWithNonTemporalStores) {
  const std::vector<float> sums = random_values(2 * tile_sums, 1), bias = random_values(32, 2);
  for (const std::int64_t columns : {16, 31, 32}) {
    for (const std::int64_t stride : {40, 64}) {
      for (const std::int64_t first : {0, 16}) {  // a row begins at the start or in the middle of a cache line
        alignas(64) Bf16 expected[16 * 64] = {}, found[16 * 64] = {};
        RoundedWrite write{.bias = bias.data(), .relu = true};
        kernels().write_rounded(sums.data(), write, {expected + first, stride, 7, columns});
        write.non_temporal = true;
        kernels().write_rounded(sums.data(), write, {found + first, stride, 7, columns});
        EXPECT_EQ(std::memcmp(found, expected, sizeof(found)), 0) << columns << " columns, stride " << stride;
      }
    }
  }
}

TEST_P(Bf16Tiles, AddToNanAndInfinity) {
  const std::vector<float> sums(tile_sums, 1.0f);
  std::vector<Bf16> target(tile_sums, to_bf16(std::numeric_limits<float>::quiet_NaN()));
  target[1] = to_bf16(-std::numeric_limits<float>::infinity());
  kernels().write_rounded(sums.data(), {.accumulate = true}, {target.data(), 16, 16, 16});
  EXPECT_TRUE(std::isnan(to_float(target[0])));
  EXPECT_EQ(to_float(target[1]), -std::numeric_limits<float>::infinity());
}

TEST_P(Bf16Tiles, RoundNanAndInfinityToThemselves) {
  std::vector<float> sums(tile_sums, std::numeric_limits<float>::quiet_NaN());
  sums[1] = std::numeric_limits<float>::infinity();
  std::vector<Bf16> target(tile_sums);
  kernels().write_rounded(sums.data(), {.relu = true}, {target.data(), 16, 16, 16});
  EXPECT_TRUE(std::isnan(to_float(target[0])));
  EXPECT_TRUE(std::isinf(to_float(target[1])));
}

}  // namespace
}  // namespace carillon::testing
