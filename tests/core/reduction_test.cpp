#include "carillon/core/reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tests/support/float_arrays.h"

namespace carillon::testing {
namespace {

using Parts = std::vector<std::vector<float>>;

Parts random_parts(std::size_t parts, std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  Parts all(parts, std::vector<float>(count));
  for (std::vector<float>& part : all) {
    for (float& value : part) value = values(random);
  }
  return all;
}

std::vector<float> sum_of(const Parts& parts, float factor, SumOrder order) {
  std::vector<const float*> places;
  for (const std::vector<float>& part : parts) places.push_back(part.data());
  std::vector<float> sum(parts.front().size());
  sum_in_order(places, sum.size(), factor, sum.data(), order);
  return sum;
}

/// Computes SumOrder::tree by its definition, for one element of the parts [first, first + count).
float tree_of(const Parts& parts, std::size_t first, std::size_t count, std::size_t element) {
  if (count == 1) return parts[first][element];
  const std::size_t left = std::bit_floor(count - 1);
  return tree_of(parts, first, left, element) + tree_of(parts, first + left, count - left, element);
}

TEST(SumInOrder, ATreeIsItsDefinitionAtEveryNumberOfParts) {
  constexpr float factor = 0.3f;
  for (std::size_t count = 1; count <= 33; ++count) {
    for (const std::size_t elements : {1, 63, 64, 200}) {
      const Parts parts = random_parts(count, elements);
      std::vector<float> expected;
      for (std::size_t i = 0; i < elements; ++i) expected.push_back(tree_of(parts, 0, count, i) * factor);
      EXPECT_TRUE(equal_bits(sum_of(parts, factor, SumOrder::tree), expected)) << count << " of " << elements;
    }
  }
}

TEST(SumInOrder, BlocksOfATreeCanBeSummedApart) {
  for (const std::size_t total : {8, 24, 40}) {
    const Parts parts = random_parts(total, 100);
    const std::vector<float> whole = sum_of(parts, 1.0f, SumOrder::tree);
    for (const std::size_t block : {1, 2, 4, 8}) {
      Parts blocks;
      for (std::size_t first = 0; first < total; first += block) {
        const Parts part(parts.begin() + static_cast<long>(first), parts.begin() + static_cast<long>(first + block));
        blocks.push_back(sum_of(part, 1.0f, SumOrder::tree));
      }
      EXPECT_TRUE(equal_bits(sum_of(blocks, 1.0f, SumOrder::tree), whole)) << block << " of " << total;
    }
  }
}

TEST(SumInOrder, BlockByBlockGivesTheSameValuesInBothOrders) {
  constexpr std::size_t count = 3000;
  const Parts parts = random_parts(7, count);
  std::vector<const float*> places;
  for (const std::vector<float>& part : parts) places.push_back(part.data());
  for (const SumOrder order : {SumOrder::sequential, SumOrder::tree}) {
    std::vector<float> found(count);
    const auto take = [&](std::size_t first, std::span<const float> values) {
      EXPECT_EQ(first % sum_block_floats, 0u);
      std::copy(values.begin(), values.end(), found.begin() + static_cast<long>(first));
    };
    sum_blocks_in_order(places, count, 0.5f, take, order);
    EXPECT_TRUE(equal_bits(found, sum_of(parts, 0.5f, order)));
  }
  EXPECT_FALSE(equal_bits(sum_of(parts, 1.0f, SumOrder::tree), sum_of(parts, 1.0f, SumOrder::sequential)));
}

}  // namespace
}  // namespace carillon::testing
