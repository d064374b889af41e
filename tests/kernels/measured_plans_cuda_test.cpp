// Tests the table of convolution plans that were measured as fastest. Needs no GPU.
#include <gtest/gtest.h>

#include <cctype>
#include <vector>

#include "kernels/conv2d/conv2d_plan_cuda.h"
#include "tests/support/described_gpus.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

constexpr GpuModel h200_model{90, 132};

Conv2dTask small_task() {
  const SlidingWindow window = slide(12, 5, 1, Padding::same);
  return {.pass = Conv2dPass::weights_gradient,
          .layout = conv2d_layout({window, window}, {128, 12, 12, 64}, {5, 5, 64, 64}, {128, 12, 12, 64}),
          .type = DType::bf16,
          .arithmetic = Arithmetic::bf16,
          .workspace_bytes = h200_workspace_bytes};
}

std::string chosen(std::span<const MeasuredPlan> table, const Conv2dTask& task, std::string_view gpu = h200) {
  std::string reason;
  const auto plan = Conv2dPlan::find({.device_json = gpu}, task, reason, table);
  return plan ? plan->kernel() : reason;
}

/// Returns a plan that cuDNN proposes for the H200. The plan needs a workspace, and its kernel differs from `rules`,
/// the kernel that Carillon's rules choose. Returns null if there is no such plan.
std::unique_ptr<Conv2dPlan> other_plan(const Conv2dTask& task, const std::string& rules) {
  for (auto& plan : Conv2dPlan::candidates({.device_json = h200}, task, 8)) {
    if (plan->kernel() != rules && plan->workspace_bytes() > 0) return std::move(plan);
  }
  return nullptr;
}

TEST(MeasuredPlansCuda, AnEntryComesBeforeTheRulesIfAllConditionsAreItsOwn) {
  const Conv2dTask task = small_task();
  const std::string rules = chosen({}, task), convolution = Conv2dPlan::text({.device_json = h200}, task);
  const auto other = other_plan(task, rules);
  ASSERT_TRUE(other);
  const std::string kernel = other->kernel();
  EXPECT_EQ(convolution, convolution_text(h200_model, cudnnGetVersion(), task));
  const auto with_entry = [&](std::string_view text, std::string_view name) {
    const MeasuredPlan table[] = {{"another convolution", "eng0"}, {text, name}};
    return chosen(table, task);
  };
  EXPECT_EQ(with_entry(convolution, kernel), kernel);
  EXPECT_EQ(with_entry(convolution, "eng12345_k0=1"), rules);
  EXPECT_EQ(with_entry(convolution_text(h200_model, cudnnGetVersion() + 1, task), kernel), rules);
  EXPECT_EQ(with_entry(convolution_text({90, 114}, cudnnGetVersion(), task), kernel), rules);
  EXPECT_EQ(with_entry(convolution_text({80, 132}, cudnnGetVersion(), task), kernel), rules);
  const MeasuredPlan table[] = {{convolution, kernel}};
  EXPECT_EQ(chosen(table, task, a100), chosen({}, task, a100));
  Conv2dTask with_less = task;
  with_less.workspace_bytes = other->workspace_bytes() - 1;
  EXPECT_EQ(chosen(table, with_less), chosen({}, with_less));
}

TEST(MeasuredPlansCuda, EachFieldOfATaskIsACondition) {
  const Conv2dTask task = small_task();
  std::vector<Conv2dTask> others(8, task);
  others[0].pass = Conv2dPass::data_gradient;
  others[1].type = DType::f32;
  others[2].arithmetic = Arithmetic::tf32;
  others[3].layout.x.extents[0] = 127;
  others[4].layout.weights.extents[1] = 32;
  others[5].layout.stride[1] = 2;
  others[6].layout.padding_after[0] = 1;
  others[7].layout.dilation[0] = 2;
  const std::string text = convolution_text(h200_model, 91900, task);
  EXPECT_EQ(text,
            "sm_90 x 132, cuDNN 91900, weights_gradient, bf16 bf16, x 128x64x12x12, weights 64x64x5x5, "
            "y 128x64x12x12, stride 1x1, padding 2x2 2x2");
  for (const Conv2dTask& other : others) EXPECT_NE(convolution_text(h200_model, 91900, other), text);
}

TEST(MeasuredPlansCuda, CandidatesAreDifferentAndBeginWithTheHeuristicsFirst) {
  const auto plans = Conv2dPlan::candidates({.device_json = h200}, small_task(), 4);
  ASSERT_EQ(plans.size(), 4u);
  for (std::size_t i = 1; i < plans.size(); ++i) EXPECT_NE(plans[i]->kernel(), plans[i - 1]->kernel());
}

/// Parses a text that convolution_text has written. Computes the strides of the tensors from their extents.
Conv2dTask task_of(const std::string& text) {
  std::vector<std::int64_t> n;  // all numbers in the text: extents, stride and padding
  for (std::size_t at = text.find(", x ") + 4; at < text.size();) {
    std::size_t length = 1;
    if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) n.push_back(std::stoll(text.substr(at), &length));
    at += length;
  }
  Conv2dTask task{.workspace_bytes = h200_workspace_bytes};
  task.layout = {.x = channels_last(n.at(0), n.at(1), n.at(2), n.at(3)),
                 .weights = channels_last(n.at(4), n.at(5), n.at(6), n.at(7)),
                 .biases = channels_last(1, n.at(4), 1, 1),
                 .y = channels_last(n.at(8), n.at(9), n.at(10), n.at(11)),
                 .stride = {n.at(12), n.at(13)},
                 .padding_before = {n.at(14), n.at(15)},
                 .padding_after = {n.at(16), n.at(17)}};
  const auto has = [&](const char* part) { return text.find(part) != text.npos; };
  task.pass = has("weights_gradient") ? Conv2dPass::weights_gradient
              : has("data_gradient")  ? Conv2dPass::data_gradient
              : has("forward_bias")   ? Conv2dPass::forward_bias
                                      : Conv2dPass::forward;
  task.arithmetic = has("bf16") ? Arithmetic::bf16 : has("tf32") ? Arithmetic::tf32 : Arithmetic::fp32;
  task.type = has("bf16") ? DType::bf16 : DType::f32;
  return task;
}

TEST(MeasuredPlansCuda, CudnnOffersEachEntryOfTheTableToTheH200) {
  for (const MeasuredPlan& entry : measured_plans()) {
    const std::string text(entry.convolution);
    const Conv2dTask task = task_of(text);
    if (text == convolution_text(h200_model, cudnnGetVersion(), task)) {
      EXPECT_EQ(chosen(measured_plans(), task), entry.kernel) << text;
    } else {
      EXPECT_EQ(chosen(measured_plans(), task), chosen({}, task)) << text;
    }
  }
}

TEST(MeasuredPlansCuda, TheTableCanBeSwitchedOff) {
  const SwitchedOff off("measured_plans");
  EXPECT_TRUE(measured_plans().empty());
}

}  // namespace
}  // namespace carillon::testing
