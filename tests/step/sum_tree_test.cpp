#include "src/step/gradients/micro_batches.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "carillon/core/error.h"
#include "carillon/core/reduction.h"
#include "src/device/cpu_device.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr std::size_t count = 100;
constexpr float factor = 0.25f;

std::vector<float> leaf_values(int leaf) { return random_values(count, static_cast<std::uint64_t>(leaf)); }

std::vector<float> expected_sum(int leaves) {
  std::vector<std::vector<float>> values;
  std::vector<const float*> places;
  for (int leaf = 0; leaf < leaves; ++leaf) values.push_back(leaf_values(leaf));
  for (const std::vector<float>& of_leaf : values) places.push_back(of_leaf.data());
  std::vector<float> sum(count);
  sum_in_order(places, count, factor, sum.data(), SumOrder::tree);
  return sum;
}

std::vector<float> finished(SumTree& tree) {
  std::vector<float> sum(count);
  tree.finish(factor, sum);
  return sum;
}

TEST(SumTree, IsTheSameForAnyOrderOfItsLeaves) {
  CpuDevice device(1);
  std::mt19937 random(5);
  for (int leaves = 1; leaves <= 13; ++leaves) {
    SumTree tree(leaves, count, device);
    const std::vector<float> expected = expected_sum(leaves);
    std::vector<int> order(static_cast<std::size_t>(leaves));
    std::iota(order.begin(), order.end(), 0);
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (const int leaf : order) tree.add(leaf, leaf_values(leaf));
      EXPECT_TRUE(equal_bits(finished(tree), expected)) << leaves;
      std::ranges::shuffle(order, random);
    }
  }
}

TEST(SumTree, TakesLeavesFromSeveralThreadsAtOnce) {
  CpuDevice device(1);
  constexpr int leaves = 64;
  SumTree tree(leaves, count, device);
  const std::vector<float> expected = expected_sum(leaves);
  for (int repeat = 0; repeat < 50; ++repeat) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(4)
    for (int leaf = 0; leaf < leaves; ++leaf) tree.add(leaf, leaf_values(leaf));
    ASSERT_TRUE(equal_bits(finished(tree), expected));
  }
}

TEST(SumTree, RefusesToEndBeforeAllLeavesAreThere) {
  CpuDevice device(1);
  SumTree tree(3, count, device);
  tree.add(0, leaf_values(0));
  tree.add(2, leaf_values(2));
  EXPECT_THROW(finished(tree), Error);
  tree.add(1, leaf_values(1));
  EXPECT_TRUE(equal_bits(finished(tree), expected_sum(3)));
}

}  // namespace
}  // namespace carillon::testing
