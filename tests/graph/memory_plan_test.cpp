#include "src/graph/memory_plan.h"

#include <gtest/gtest.h>

#include "carillon/core/philox.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/image_input/image_input.h"
#include "src/graph/passes.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

void expect_no_overlap(const std::vector<Lifetime>& lives, const MemoryPlan& plan) {
  for (std::size_t a = 0; a < lives.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % tensor_alignment_bytes, 0u);
    for (std::size_t b = a + 1; b < lives.size(); ++b) {
      const bool in_time = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last &&
                           lives[a].first <= lives[a].last && lives[b].first <= lives[b].last;
      const bool in_space =
          plan.offsets[a] < plan.offsets[b] + lives[b].bytes && plan.offsets[b] < plan.offsets[a] + lives[a].bytes;
      const auto home = [&](std::size_t i) {
        return lives[i].same_as >= 0 ? static_cast<std::size_t>(lives[i].same_as) : i;
      };
      EXPECT_FALSE(in_time && in_space && home(a) != home(b)) << a << " and " << b;
    }
    if (lives[a].first <= lives[a].last) {
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.peak_bytes);
    }
  }
}

TEST(MemoryPlan, NoTwoTensorsAliveAtTheSameTimeOverlap) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<Lifetime> lives;
    for (std::uint32_t i = 0; i < 40; ++i) {
      const auto random = philox4x32(seed, {{i, 0, 0, 0}});
      const int first = static_cast<int>(random.word[1] % 30);
      lives.push_back({random.word[0] % 5000, first, first + static_cast<int>(random.word[2] % 8) - 1});
    }
    expect_no_overlap(lives, plan_memory(lives));
  }
}

TEST(MemoryPlan, TensorsThatFollowEachOtherShareMemory) {
  const std::vector<Lifetime> chain{{640, 0, 1}, {640, 1, 2}, {640, 2, 3}, {640, 3, 4}};
  EXPECT_EQ(plan_memory(chain).peak_bytes, 1280u);
}

TEST(MemoryPlan, TensorsThatAreTheSameLieInOnePlace) {
  std::vector<Lifetime> lives{{640, 0, 5}, {640, 1, 2}, {640, 2, 5}};
  lives[2].same_as = 0;
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.offsets[2], plan.offsets[0]);
  EXPECT_NE(plan.offsets[1], plan.offsets[0]);
  EXPECT_EQ(plan.peak_bytes, 1280u);
}

/// The graph is x -> fork -> (dense b; nothing) -> add. Both outputs of the fork share the memory of x. The gradient of
/// one output shares the memory of x's gradient. The branch of the other output has no op, and the gradient of this
/// output shares the memory of the sum's gradient.
TEST(MemoryPlan, ABranchThatPassesAValueOnTakesNoMemoryOfItsOwn) {
  Graph graph(4);
  const Value x = dense(graph, "a", image_input(graph, "input", {.sample = {8}}), {.units = 16});
  const Value branch = dense(graph, "b", x, {.units = 16});
  const Value sum = add(graph, "sum", x, branch);
  dense(graph, "c", sum, {.units = 2});
  insert_forks(graph, fork_op());
  const std::vector<Lifetime> lives = tensor_lifetimes(graph, plan_tiling(graph, 0), true, {});
  const auto& fork = graph.nodes()[2];
  const int value_count = static_cast<int>(graph.values().size());
  for (const int output : fork.outputs) EXPECT_EQ(lives[output].same_as, x.index);
  EXPECT_EQ(lives[value_count + fork.outputs[0]].same_as, value_count + x.index);
  EXPECT_EQ(lives[value_count + fork.outputs[1]].same_as, value_count + sum.index);
  EXPECT_EQ(lives[value_count + branch.index].same_as, -1);
  expect_no_overlap(lives, plan_memory(lives));
}

TEST(MemoryPlan, HoldsForEveryNetworkInTrainingAndEvaluation) {
  std::vector<Network> networks = all_networks();
  networks.push_back(resnet50_network(cifar10_images()));
  for (const Network& network : networks) {
    const BuiltNetwork evaluated = build_network(network, {.batch_size = 32, .purpose = Purpose::evaluation});
    const std::vector<Lifetime> evaluation =
        tensor_lifetimes(evaluated.graph, plan_tiling(evaluated.graph, 0), false, std::vector{evaluated.output});
    expect_no_overlap(evaluation, plan_memory(evaluation));
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
      const BuiltNetwork trained =
          build_network(network, task_of(network), {.batch_size = 37, .arithmetic = arithmetic});
      for (const int workers : {0, 1, 2, 3}) {
        const std::vector<Lifetime> training =
            tensor_lifetimes(trained.graph, plan_tiling(trained.graph, workers), true, std::vector{trained.loss});
        expect_no_overlap(training, plan_memory(training));
        if (arithmetic != evaluated.graph.arithmetic() || workers > 0) continue;
        EXPECT_LT(plan_memory(evaluation).peak_bytes, plan_memory(training).peak_bytes) << network.name;
      }
    }
  }
}

}  // namespace
}  // namespace carillon::testing
