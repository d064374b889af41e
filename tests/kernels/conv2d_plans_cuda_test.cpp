// Tests cuDNN's plans of convolutions without a GPU: cuDNN chooses a plan from a description of the GPU.
#include <gtest/gtest.h>

#include "kernels/conv2d/conv2d_plan_cuda.h"
#include "tests/support/described_gpus.h"

namespace carillon::testing {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{256} << 20;  // smallest workspace that CudaDevice has

struct Case {
  const char* name;
  std::int64_t height, width, in;
  Conv2dParams params;
};

Conv2dTask task_of(const Case& c, std::int64_t batch, Conv2dPass pass, Arithmetic arithmetic) {
  const Shape x{batch, c.height, c.width, c.in};
  const auto [vertical, horizontal] = c.params.windows(x);
  const Conv2dGeometry geometry{.vertical = vertical, .horizontal = horizontal, .groups = c.params.groups};
  const Shape y{batch, vertical.output, horizontal.output, c.params.filters};
  return {.pass = pass,
          .layout = conv2d_layout(geometry, x,
                                  {vertical.window, horizontal.window, c.in / c.params.groups, c.params.filters}, y),
          .type = arithmetic == Arithmetic::bf16 ? DType::bf16 : DType::f32,
          .arithmetic = arithmetic,
          .workspace_bytes = workspace_bytes};
}

class Conv2dPlansCuda : public ::testing::TestWithParam<Case> {};

TEST_P(Conv2dPlansCuda, ThereIsOneForEveryPassArithmeticAndGpu) {
  std::string reason;
  for (const std::string_view gpu : {h200, a100}) {
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
      for (const Conv2dPass pass : {Conv2dPass::forward, Conv2dPass::weights_gradient, Conv2dPass::data_gradient}) {
        for (const std::int64_t batch : {1, 3, 100, 128}) {
          const auto plan =
              Conv2dPlan::find({.device_json = gpu}, task_of(GetParam(), batch, pass, arithmetic), reason);
          ASSERT_TRUE(plan) << "pass " << static_cast<int>(pass) << " arithmetic " << static_cast<int>(arithmetic)
                            << " batch " << batch << ": " << reason << " " << gpu;
          EXPECT_LE(plan->workspace_bytes(), workspace_bytes);
        }
      }
    }
  }
}

TEST_P(Conv2dPlansCuda, TheBiasIsInTheForwardKernelInFloat32) {
  std::string reason;
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32}) {
    const Conv2dTask task = task_of(GetParam(), 128, Conv2dPass::forward_bias, arithmetic);
    EXPECT_TRUE(Conv2dPlan::find({.device_json = h200}, task, reason)) << reason;
  }
}

TEST_P(Conv2dPlansCuda, AreTheSameEveryTime) {
  const Conv2dTask task = task_of(GetParam(), 128, Conv2dPass::weights_gradient, Arithmetic::tf32);
  std::string reason;
  const auto first = Conv2dPlan::find({.device_json = h200}, task, reason);
  const auto second = Conv2dPlan::find({.device_json = h200}, task, reason);
  ASSERT_TRUE(first && second) << reason;
  EXPECT_EQ(first->kernel(), second->kernel());
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Conv2dPlansCuda,
    ::testing::Values(
        Case{"cifar10 conv1", 24, 24, 3, {.filters = 64, .kernel = 5}},
        Case{"cifar10 conv1 padded", 24, 24, 8, {.filters = 64, .kernel = 5}},
        Case{"resnet conv1 padded", 64, 64, 8, {64, 7, 2, Padding::symmetric(3)}},
        Case{"cifar10 conv2", 12, 12, 64, {.filters = 64, .kernel = 5}},
        Case{"lenet conv1", 28, 28, 1, {.filters = 32, .kernel = 5}},
        Case{"lenet conv2", 14, 14, 32, {.filters = 64, .kernel = 5}},
        Case{"odd extents", 7, 5, 17, {.filters = 33, .kernel = 3}},
        Case{"more padding after than before", 6, 7, 5, {.filters = 33, .kernel = 4}},
        Case{"stride 2", 9, 8, 3, {.filters = 8, .kernel = 3, .stride = 2}},
        Case{"one by one", 1, 1, 1, {.filters = 1, .kernel = 1}},
        Case{"resnext", 14, 14, 128, {.filters = 128, .kernel = 3, .groups = 32}},
        Case{"resnext stride 2", 14, 14, 128, {.filters = 128, .kernel = 3, .stride = 2, .groups = 32}},
        Case{"odd groups", 9, 8, 6, {.filters = 10, .kernel = 3, .groups = 2}},
        Case{"depthwise", 9, 8, 16, {.filters = 32, .kernel = 3, .groups = 16}},
        Case{"dilated", 9, 8, 16, {.filters = 32, .kernel = 3, .dilation = 2}},
        Case{"dilated depthwise", 9, 8, 16, {.filters = 16, .kernel = 3, .groups = 16, .dilation = 2}},
        Case{"column", 9, 8, 16, {.filters = 32, .kernel = 7, .kernel_width = 1}},
        Case{"row with pads", 9, 8, 16, {.filters = 32, .kernel = 1, .kernel_width = 7, .pads = {0, 3, 0, 2}}},
        Case{"stride of rows", 9, 8, 16, {.filters = 32, .kernel = 3, .stride = 2, .stride_width = 1}},
        Case{"pads of a window", 9, 8, 16, {.filters = 32, .kernel = 1, .pads = {1, 1, 1, 1}}}),
    [](const auto& given) {
      std::string name = given.param.name;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

/// The kinds of convolutions in imported networks. network_plans_cuda_test tests the built-in networks.
class ImportedConv2dPlansCuda : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layers, ImportedConv2dPlansCuda,
    ::testing::Values(Case{"resnext", 56, 56, 128, {.filters = 128, .kernel = 3, .groups = 32}},
                      Case{"resnext_stride", 28, 28, 512, {.filters = 512, .kernel = 3, .stride = 2, .groups = 32}},
                      Case{"regnet", 28, 28, 160, {.filters = 160, .kernel = 3, .groups = 10}},
                      Case{"shufflenet", 28, 28, 144, {.filters = 144, .kernel = 1, .groups = 4}},
                      Case{"alexnet", 27, 27, 96, {.filters = 256, .kernel = 5, .groups = 2}},
                      Case{"dilated", 28, 28, 256, {.filters = 256, .kernel = 3, .dilation = 2}},
                      Case{"dilated_depthwise", 28, 28, 64, {.filters = 64, .kernel = 3, .groups = 64, .dilation = 2}},
                      Case{"inception_row", 17, 17, 128, {.filters = 192, .kernel = 1, .kernel_width = 7}},
                      Case{"inception_column", 17, 17, 128, {.filters = 192, .kernel = 7, .kernel_width = 1}},
                      Case{"shortcut", 56, 56, 256, {.filters = 512, .kernel = 1, .stride = 2}},
                      Case{"stem_of_3_channels", 224, 224, 3, {.filters = 32, .kernel = 3, .stride = 2}},
                      Case{"stem_of_8_channels", 224, 224, 8, {.filters = 64, .kernel = 7, .stride = 4}},
                      Case{"odd_channels", 28, 28, 58, {.filters = 58, .kernel = 3}},
                      Case{"densenet", 28, 28, 128, {.filters = 32, .kernel = 3}}),
    [](const auto& test) { return test.param.name; });

TEST_P(ImportedConv2dPlansCuda, UseTensorCores) {
  for (const std::string_view gpu : {h200, a100}) {
    for (const Arithmetic arithmetic : {Arithmetic::tf32, Arithmetic::bf16}) {
      for (const Conv2dPass pass : {Conv2dPass::forward, Conv2dPass::weights_gradient, Conv2dPass::data_gradient}) {
        Conv2dTask task = task_of(GetParam(), 64, pass, arithmetic);
        task.workspace_bytes = h200_workspace_bytes;
        std::string reason;
        const auto plan = Conv2dPlan::find({.device_json = gpu}, task, reason);
        ASSERT_TRUE(plan) << "pass " << static_cast<int>(pass) << ": " << reason << " " << gpu;
        EXPECT_TRUE(plan->on_tensor_cores()) << "pass " << static_cast<int>(pass) << ": " << plan->kernel();
      }
    }
  }
}

constexpr Case cifar10_conv2{"cifar10 conv2", 12, 12, 64, {.filters = 64, .kernel = 5}};

TEST(Conv2dPlansCuda, TensorCoresAreForTheOtherArithmetics) {
  std::string reason;
  for (const Conv2dPass pass : {Conv2dPass::forward, Conv2dPass::weights_gradient, Conv2dPass::data_gradient}) {
    const auto fp32 =
        Conv2dPlan::find({.device_json = h200}, task_of(cifar10_conv2, 128, pass, Arithmetic::fp32), reason);
    const auto tf32 =
        Conv2dPlan::find({.device_json = h200}, task_of(cifar10_conv2, 128, pass, Arithmetic::tf32), reason);
    ASSERT_TRUE(fp32 && tf32) << reason;
    EXPECT_FALSE(fp32->on_tensor_cores()) << fp32->kernel();
    EXPECT_TRUE(tf32->on_tensor_cores()) << tf32->kernel();
  }
}

/// For this convolution, the engine that cuDNN proposes first does not use tensor cores.
TEST(Conv2dPlansCuda, KernelsWithTensorCoresComeFirst) {
  const Case shortcut{"shortcut", 32, 32, 64, {.filters = 128, .kernel = 1, .stride = 2}};
  std::string reason;
  const auto plan =
      Conv2dPlan::find({.device_json = h200}, task_of(shortcut, 128, Conv2dPass::forward, Arithmetic::bf16), reason);
  ASSERT_TRUE(plan) << reason;
  EXPECT_TRUE(plan->on_tensor_cores()) << plan->kernel();
}

/// In the plan that cuDNN proposes first, each block computes 64x64 results. Only 4 blocks would run, and each block
/// would sum over all images.
TEST(Conv2dPlansCuda, ASmallGradientOfWeightsDividesItsSum) {
  const Case images{"images", 24, 24, 8, {.filters = 64, .kernel = 5}};
  std::string reason;
  const auto plan = Conv2dPlan::find({.device_json = h200},
                                     task_of(images, 128, Conv2dPass::weights_gradient, Arithmetic::bf16), reason);
  ASSERT_TRUE(plan) << reason;
  const std::size_t knob = plan->kernel().find("_k0=");
  ASSERT_NE(knob, std::string::npos) << plan->kernel();
  EXPECT_GE(std::stoi(plan->kernel().substr(knob + 4)), 16) << plan->kernel();
}

/// Shows why images have 8 channels in bfloat16: if they have fewer, cuDNN makes padded copies of them in its
/// workspace.
TEST(Conv2dPlansCuda, FewChannelsAreCopiedInBf16) {
  for (const Conv2dPass pass : {Conv2dPass::forward, Conv2dPass::weights_gradient}) {
    const auto workspace = [&](std::int64_t channels) {
      std::string reason;
      const Case images{"images", 24, 24, channels, {.filters = 64, .kernel = 5}};
      const auto plan = Conv2dPlan::find({.device_json = h200}, task_of(images, 128, pass, Arithmetic::bf16), reason);
      return plan ? plan->workspace_bytes() : 0;
    };
    constexpr std::size_t padded_images = 128 * 24 * 24 * 8 * 2;
    for (const std::int64_t channels : {1, 3, 4}) EXPECT_GE(workspace(channels), padded_images) << channels;
    if (pass == Conv2dPass::forward) {
      EXPECT_LT(workspace(8), padded_images / 10);
    }
    EXPECT_LT(workspace(8), padded_images);  // the workspace holds only partial sums of the weights gradient
  }
}

TEST(Conv2dPlansCuda, NoWorkspaceMeansAnotherKernelOrNone) {
  Conv2dTask task = task_of(cifar10_conv2, 128, Conv2dPass::weights_gradient, Arithmetic::tf32);
  task.workspace_bytes = 0;
  std::string reason;
  const auto plan = Conv2dPlan::find({.device_json = h200}, task, reason);
  EXPECT_TRUE(!plan || plan->workspace_bytes() == 0u);
}

TEST(Conv2dPlansCuda, ARefusalComesWithItsReason) {
  Conv2dTask task =
      task_of({"too wide", 4, 4, 1, {.filters = 1, .kernel = 3}}, 1, Conv2dPass::forward, Arithmetic::fp32);
  task.layout.weights.extents[1] = 2;  // the weights need 2 input channels, but x has 1
  std::string reason;
  EXPECT_FALSE(Conv2dPlan::find({.device_json = h200}, task, reason));
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(reason.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace carillon::testing
