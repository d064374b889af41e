#include "kernels/shared/tree_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "carillon/core/reduction.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"

namespace carillon::testing {
namespace {

constexpr std::size_t count = 300;  // this number needs two blocks
constexpr float factor = 1.0f / 3.0f;

/// Returns `number` arrays. The bits of their sum depend on the order of the additions.
std::vector<std::vector<float>> parts_of(std::uint32_t number) {
  std::vector<std::vector<float>> parts(number, std::vector<float>(count));
  for (std::size_t part = 0; part < number; ++part) {
    for (std::size_t i = 0; i < count; ++i) parts[part][i] = static_cast<float>((part * 37 + i * 11) % 97) / 7.0f;
  }
  return parts;
}

std::vector<float> tree_sum(const std::vector<std::vector<float>>& parts, SumOrder order = SumOrder::tree) {
  std::vector<const float*> pointers;
  for (const std::vector<float>& part : parts) pointers.push_back(part.data());
  std::vector<float> sum(count);
  sum_in_order(pointers, count, factor, sum.data(), order);
  return sum;
}

TEST(TreeSumOnAGpu, OfLeavesHasTheBitsOfTheHost) {
  for (std::uint32_t leaves = 1; leaves <= 17; ++leaves) {
    const std::vector<std::vector<float>> parts = parts_of(leaves);
    std::vector<float> values(count), waiting(static_cast<std::size_t>(std::bit_width(leaves - 1)) * count);
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
      values = parts[leaf];
      const AddTreeLeaf add{values.data(), waiting.data(), values.data(), count, leaf, leaf + 1 == leaves, factor};
      emulate(ForEachElement{add, count}, leaf % 2 == 0 ? ThreadOrder::ascending : ThreadOrder::descending);
    }
    EXPECT_TRUE(equal_bits(values, tree_sum(parts))) << leaves << " leaves";
  }
  EXPECT_FALSE(equal_bits(tree_sum(parts_of(8)), tree_sum(parts_of(8), SumOrder::sequential)));
}

TEST(TreeSumOnAGpu, OfRanksHasTheBitsOfTheHost) {
  for (std::uint32_t ranks = 1; ranks <= 17; ++ranks) {
    const std::vector<std::vector<float>> parts = parts_of(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> own = parts[rank], others;
      for (const std::vector<float>& part : parts) others.insert(others.end(), part.begin(), part.end());
      // A rank must not read its own part of `others`, so the test fills this part with wrong values.
      std::fill_n(others.begin() + static_cast<std::ptrdiff_t>(rank * count), count, 1e9f);
      emulate(ForEachElement{SumRanksAsTree{own.data(), others.data(), count, rank, ranks, factor}, count});
      EXPECT_TRUE(equal_bits(own, tree_sum(parts))) << "rank " << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
