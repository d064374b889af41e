// Tests cuDNN's plans of attention without a GPU. cuDNN chooses a plan from a description of the GPU. It compiles the
// plan's kernels at run time, and needs the CUDA driver's library (libcuda) for this. The test loads a stub of libcuda.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/attention/attention_plan_cuda.h"
#include "tests/support/described_gpus.h"

namespace carillon::testing {
namespace {

AttentionTask task_of(AttentionPass pass, std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                      std::int64_t head_size = 64) {
  return {.pass = pass,
          .shape = AttentionShape({batch, tokens, heads * head_size}, {.heads = heads}),
          .workspace_bytes = h200_workspace_bytes};
}

class AttentionPlansCuda : public ::testing::Test {
 protected:
  /// Loads the stub of libcuda. After that, the dynamic linker does not load another library of the same name. So cuDNN
  /// uses the stub even if the machine has a driver. A real driver could refuse to compile for a GPU that it does not
  /// have.
  static void SetUpTestSuite() { ASSERT_TRUE(dlopen(CARILLON_CUDA_DRIVER_STUB, RTLD_NOW)) << dlerror(); }

  static std::unique_ptr<AttentionPlan> find(const AttentionTask& task, std::string_view gpu = h200) {
    std::string reason;
    auto plan = AttentionPlan::find({.device_json = gpu}, task, reason);
    EXPECT_EQ(plan == nullptr, !reason.empty()) << reason;
    return plan;
  }
};

constexpr AttentionPass passes[] = {AttentionPass::training, AttentionPass::evaluation, AttentionPass::backward};

TEST_F(AttentionPlansCuda, ExistForOtherNumbersOfHeads) {
  for (const auto& [batch, tokens, heads] : {std::tuple(1, 65, 3), std::tuple(64, 577, 12), std::tuple(3, 35, 2)}) {
    for (const AttentionPass pass : passes) {
      SCOPED_TRACE(fmt::format("pass {}, batch {}, tokens {}, heads {}", static_cast<int>(pass), batch, tokens, heads));
      const auto plan = find(task_of(pass, batch, tokens, heads));
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->workspace_bytes(), h200_workspace_bytes);
    }
  }
}

struct PlannedTokens {
  const char* name;
  std::string_view gpu;
  std::int64_t tokens;
};

class AttentionPlansCudaOfTokens : public AttentionPlansCuda, public ::testing::WithParamInterface<PlannedTokens> {};
INSTANTIATE_TEST_SUITE_P(Tokens, AttentionPlansCudaOfTokens,
                         ::testing::Values(PlannedTokens{"H200Of65", h200, 65}, PlannedTokens{"A100Of197", a100, 197},
                                           PlannedTokens{"H200Of577", h200, 577}),
                         [](const auto& test) { return test.param.name; });

/// Tests the task of ViT-S, which has 6 heads.
TEST_P(AttentionPlansCudaOfTokens, ExistForBatchesOf1To256AndAreTheSameEveryTime) {
  const auto& [name, gpu, tokens] = GetParam();
  for (const AttentionPass pass : passes) {
    for (const std::int64_t batch : {1, 48, 256}) {
      SCOPED_TRACE(fmt::format("pass {}, batch {}", static_cast<int>(pass), batch));
      const auto plan = find(task_of(pass, batch, tokens, 6), gpu);
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->workspace_bytes(), h200_workspace_bytes);
      if (batch != 256) continue;
      const auto again = find(task_of(pass, batch, tokens, 6), gpu);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->kernel(), plan->kernel());
      EXPECT_EQ(again->workspace_bytes(), plan->workspace_bytes());
    }
  }
}

/// The deterministic backward pass stores partial sums of dq (the gradient of the queries) before it adds them. For
/// this task it needs a workspace of 202 MB; cuDNN's default backward pass needs 79 MB.
TEST_F(AttentionPlansCuda, TheBackwardPassIsDeterministicAndFitsTheWorkspace) {
  AttentionTask task = task_of(AttentionPass::backward, 256, 197, 6);
  const auto plan = find(task);
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->workspace_bytes(), std::size_t{100} << 20);
  task.workspace_bytes = std::size_t{100} << 20;
  EXPECT_FALSE(find(task));
}

/// The op then computes half of the batch at once (make_attention_cuda).
TEST_F(AttentionPlansCuda, TheBackwardPassOf256SamplesWith577TokensAnd12HeadsNeedsTheWorkspaceTwice) {
  EXPECT_FALSE(find(task_of(AttentionPass::backward, 256, 577, 12)));
  EXPECT_TRUE(find(task_of(AttentionPass::backward, 128, 577, 12)));
}

TEST_F(AttentionPlansCuda, DoNotExistForHeadsThatAreNoMultipleOf8) {
  EXPECT_FALSE(find(task_of(AttentionPass::training, 3, 35, 2, 5)));
}

}  // namespace
}  // namespace carillon::testing
