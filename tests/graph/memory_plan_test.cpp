#include "carillon/graph/memory_plan.h"

#include <gtest/gtest.h>

#include "carillon/core/philox.h"
#include "carillon/models/model.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

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
      EXPECT_FALSE(in_time && in_space) << a << " and " << b;
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

TEST(MemoryPlan, HoldsForEveryModelInTrainingAndEvaluation) {
  for (const Model& model : models()) {
    Graph graph(32);
    const Value logits = model.build(graph, {});
    const std::vector<Lifetime> evaluation = tensor_lifetimes(graph, false, std::vector{logits});
    expect_no_overlap(evaluation, plan_memory(evaluation));
    const Value loss = softmax_cross_entropy(graph, "loss", logits);
    const std::vector<Lifetime> training = tensor_lifetimes(graph, true, std::vector{loss});
    expect_no_overlap(training, plan_memory(training));
    EXPECT_LT(plan_memory(evaluation).peak_bytes, plan_memory(training).peak_bytes) << model.name;
  }
}

}  // namespace
}  // namespace carillon::testing
