// Tests attention in bf16, which is a fused operation of cuDNN. The results are compared with results of the CPU, and
// with results of other runs on the GPU.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_plan_cuda.h"
#include "kernels/scale_channels/scale_channels.h"
#include "src/core/bf16.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_harness.h"
#include "tests/support/op_results.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

struct Case {
  const char* name;
  std::int64_t batch, tokens, heads, head_size;

  Shape qkv() const { return {batch, tokens, 3 * heads * head_size}; }
};

/// A graph with an attention of the input "x", and a scale_channels after it.
class ScaledAttention {
 public:
  ScaledAttention(const Case& c, Device& device, Arithmetic arithmetic) : harness_(c.batch, device, arithmetic) {
    const Value y = attention(harness_.graph(), "attention", harness_.input("x", c.qkv()), {.heads = c.heads});
    harness_.finish(scale_channels(harness_.graph(), "scale", y, {.initial_factor = 1.0f}));
    harness_.set("scale/gamma", std::vector<float>(static_cast<std::size_t>(c.heads * c.head_size), 1.0f));
  }
  OpHarness& harness() { return harness_; }

  /// Returns the output, and the gradient of x.
  OpResults results(std::span<const float> x) {
    harness_.set("x", x);
    OpResults results{{"output", copy(harness_.forward())}};
    harness_.backward();
    results["gradient"] = copy(harness_.gradient("x"));
    return results;
  }

 private:
  OpHarness harness_;
};

/// Returns random values that bf16 can represent exactly.
std::vector<float> operands(const Case& c) {
  std::vector<float> values = random_values(static_cast<std::size_t>(c.qkv().element_count()), 7, -2.0f, 2.0f);
  for (float& value : values) value = to_float(to_bf16(value));
  return values;
}

bool is_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

class AttentionInBf16 : public GpuTest, public ::testing::WithParamInterface<Case> {};

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionInBf16,
                         ::testing::Values(Case{"VisionTransformer", 2, 197, 6, 64}, Case{"FewTokens", 3, 50, 3, 32},
                                           Case{"ManyTokens", 1, 577, 2, 64}, Case{"HeadsWithoutAPlan", 2, 33, 2, 12}),
                         [](const auto& test) { return test.param.name; });

class AttentionPlansOnAGpu : public GpuTest {};

/// If cuDNN had no plan for attention, the op would use matrix products. The other tests would not notice this.
TEST_F(AttentionPlansOnAGpu, ExistForVisionTransformers) {
  CudaDevice gpu(0);
  for (const AttentionPass pass : {AttentionPass::training, AttentionPass::evaluation, AttentionPass::backward}) {
    std::string reason;
    const AttentionTask task{pass, AttentionShape({2, 197, 6 * 64}, {.heads = 6}), gpu.workspace().size()};
    EXPECT_TRUE(AttentionPlan::find({.handle = gpu.cudnn()}, task, reason)) << static_cast<int>(pass) << ": " << reason;
  }
}

TEST_P(AttentionInBf16, IsNearTheCpu) {
  const std::vector<float> x = operands(GetParam());
  CpuDevice cpu(1);
  CudaDevice gpu(0);
  const OpResults expected = ScaledAttention(GetParam(), cpu, Arithmetic::fp32).results(x);
  expect_close(expected, ScaledAttention(GetParam(), gpu, Arithmetic::bf16).results(x), 1.5e-2f);
}

TEST_P(AttentionInBf16, HasEqualBitsInTwoRuns) {
  const std::vector<float> x = operands(GetParam());
  CudaDevice gpu(0);
  ScaledAttention first(GetParam(), gpu, Arithmetic::bf16);
  const OpResults expected = first.results(x);
  EXPECT_EQ(first.results(x), expected);
  EXPECT_EQ(ScaledAttention(GetParam(), gpu, Arithmetic::bf16).results(x), expected);
}

TEST_P(AttentionInBf16, SharesItsPlansWithLayersOfEqualShape) {
  CudaDevice gpu(0);
  const ScaledAttention first(GetParam(), gpu, Arithmetic::bf16);
  const std::size_t count = gpu.shared().count();
  EXPECT_GT(count, 0u);
  const ScaledAttention second(GetParam(), gpu, Arithmetic::bf16);
  EXPECT_EQ(gpu.shared().count(), count);
}

TEST_P(AttentionInBf16, IsTheSameInAnEvaluation) {
  CudaDevice gpu(0);
  ScaledAttention attention(GetParam(), gpu, Arithmetic::bf16);
  const std::vector<float> trained = attention.results(operands(GetParam())).at("output");
  expect_close({{"output", trained}}, {{"output", copy(attention.harness().evaluate())}}, 1e-2f);
}

TEST_P(AttentionInBf16, ReportsNaNAndInfinityOfQueryKeyAndValue) {
  const Case& c = GetParam();
  const std::int64_t width = c.heads * c.head_size, row = (c.tokens / 2) * 3 * width;
  CudaDevice gpu(0);
  ScaledAttention attention(c, gpu, Arithmetic::bf16);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t part : {0, 1, 2}) {
      SCOPED_TRACE(::testing::Message() << bad << " in part " << part);
      std::vector<float> x = operands(c);
      x[static_cast<std::size_t>(row + part * width + c.head_size / 2)] = bad;
      const OpResults results = attention.results(x);
      EXPECT_FALSE(is_finite(results.at("output")));
      EXPECT_FALSE(is_finite(results.at("gradient")));
    }
  }
}

TEST_P(AttentionInBf16, ReportsNaNAndInfinityOfTheOutputsGradient) {
  const Case& c = GetParam();
  CudaDevice gpu(0);
  ScaledAttention attention(c, gpu, Arithmetic::bf16);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> gamma(static_cast<std::size_t>(c.heads * c.head_size), 1.0f);
    gamma[static_cast<std::size_t>(c.head_size / 2)] = bad;
    attention.harness().set("scale/gamma", gamma);
    EXPECT_FALSE(is_finite(attention.results(operands(c)).at("gradient"))) << bad;
  }
}

TEST_P(AttentionInBf16, IsNearTheMatrixProducts) {
  const std::vector<float> x = operands(GetParam());
  CudaDevice gpu(0);
  const OpResults fused = ScaledAttention(GetParam(), gpu, Arithmetic::bf16).results(x);
  const SwitchedOff off("fused_attention");
  ScaledAttention by_products(GetParam(), gpu, Arithmetic::bf16);
  expect_close(fused, by_products.results(x), 2e-2f);
}

}  // namespace
}  // namespace carillon::testing
