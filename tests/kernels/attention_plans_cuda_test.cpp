// Tests cuDNN's plans of attention without a GPU. cuDNN chooses a plan from a description of the GPU. It compiles the
// plan's kernels at run time, and calls the library of the CUDA driver for this; the test loads a stub of that library.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

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
  /// Loads the stub of libcuda. If a library of this name is already loaded, the dynamic linker does not load another.
  /// So cuDNN uses the stub even if the machine has a driver. A real driver could refuse to compile for a GPU that it
  /// does not have.
  static void SetUpTestSuite() { ASSERT_TRUE(dlopen(CARILLON_CUDA_DRIVER_STUB, RTLD_NOW)) << dlerror(); }

  static std::unique_ptr<AttentionPlan> find(const AttentionTask& task, std::string_view gpu = h200) {
    std::string reason;
    auto plan = AttentionPlan::find({.device_json = gpu}, task, reason);
    EXPECT_EQ(plan == nullptr, !reason.empty()) << reason;
    return plan;
  }
};

constexpr AttentionPass passes[] = {AttentionPass::training, AttentionPass::evaluation, AttentionPass::backward};

TEST_F(AttentionPlansCuda, ExistForTheShapesOfTransformers) {
  struct Case {
    std::string_view gpu;
    std::int64_t batch, tokens, heads;
  };
  for (const Case& c : {Case{h200, 256, 197, 6}, Case{h200, 1, 65, 3}, Case{h200, 64, 577, 12}, Case{a100, 256, 197, 6},
                        Case{a100, 3, 35, 2}}) {
    for (const AttentionPass pass : passes) {
      SCOPED_TRACE(fmt::format("pass {}, batch {}, tokens {}, heads {}, {}", static_cast<int>(pass), c.batch, c.tokens,
                               c.heads, c.gpu));
      const auto plan = find(task_of(pass, c.batch, c.tokens, c.heads), c.gpu);
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->workspace_bytes(), h200_workspace_bytes);
    }
  }
}

TEST_F(AttentionPlansCuda, AreTheSameEveryTime) {
  for (const AttentionPass pass : passes) {
    const auto first = find(task_of(pass, 256, 197, 6)), second = find(task_of(pass, 256, 197, 6));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->kernel(), second->kernel());
    EXPECT_EQ(first->workspace_bytes(), second->workspace_bytes());
  }
}

/// The deterministic backward pass stores partial sums of dq (the gradient of the queries) before it adds them. Here it
/// needs a workspace of 202 MB; cuDNN's default backward pass needs 79 MB.
TEST_F(AttentionPlansCuda, TheBackwardPassIsDeterministicAndFitsTheWorkspace) {
  AttentionTask task = task_of(AttentionPass::backward, 256, 197, 6);
  const auto plan = find(task);
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->workspace_bytes(), std::size_t{100} << 20);
  task.workspace_bytes = std::size_t{100} << 20;
  EXPECT_FALSE(find(task));
}

TEST_F(AttentionPlansCuda, DoNotExistForHeadsThatAreNoMultipleOf8) {
  EXPECT_FALSE(find(task_of(AttentionPass::training, 3, 35, 2, 5)));
}

}  // namespace
}  // namespace carillon::testing
