// Plans are made here for an H200 that need not be there: cuDNN's heuristic and its compiled kernels run without a GPU.
// Kernels that cuDNN compiles on the spot (convolution and bias in one, for bf16) need the driver, and are not found.
#include <gtest/gtest.h>

#include "kernels/conv2d/conv2d_plan_cuda.h"

namespace carillon::testing {
namespace {

/// The device property descriptor's JSON; figures of NVIDIA's data sheet and of cudaGetDeviceProperties.
constexpr std::string_view h200 = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
  "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

constexpr std::size_t workspace_bytes = std::size_t{256} << 20;

struct Case {
  const char* name;
  std::int64_t height, width, in;
  Conv2dParams params;
};

/// A task of `pass` on `batch` images; without the result's type.
Conv2dTask task_of(const Case& c, std::int64_t batch, Conv2dPass pass, Arithmetic arithmetic) {
  const Conv2dGeometry geometry{slide(c.height, c.params.kernel, c.params.stride, c.params.padding),
                                slide(c.width, c.params.kernel, c.params.stride, c.params.padding)};
  const Shape y{batch, geometry.vertical.output, geometry.horizontal.output, c.params.filters};
  const DType type = arithmetic == Arithmetic::bf16 ? DType::bf16 : DType::f32;
  return {.pass = pass,
          .layout = conv2d_layout(geometry, {batch, c.height, c.width, c.in},
                                  {c.params.kernel, c.params.kernel, c.in, c.params.filters}, y),
          .input_type = type,
          .result_type = type,
          .arithmetic = arithmetic,
          .workspace_bytes = workspace_bytes};
}

class Conv2dPlansCuda : public ::testing::TestWithParam<Case> {};

TEST_P(Conv2dPlansCuda, ThereIsOneForEveryPassAndArithmetic) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
    for (const Conv2dPass pass : {Conv2dPass::forward, Conv2dPass::weights_gradient, Conv2dPass::data_gradient}) {
      for (const std::int64_t batch : {1, 3, 100, 128}) {
        const Conv2dTask task = task_of(GetParam(), batch, pass, arithmetic);
        std::string reason;
        const auto plan = Conv2dPlan::find({.device_json = h200}, task, reason);
        const std::string which = fmt::format("{} pass {} arithmetic {} batch {}", GetParam().name,
                                              static_cast<int>(pass), static_cast<int>(arithmetic), batch);
        ASSERT_TRUE(plan) << which << ": " << reason;
        EXPECT_LE(plan->workspace_bytes(), workspace_bytes) << which;
        std::cout << which << ": " << plan->kernel() << ", " << plan->workspace_bytes() << " bytes\n";
      }
    }
  }
}

TEST_P(Conv2dPlansCuda, BiasAndReluAreInTheForwardKernelInFloat32) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32}) {
    for (const Conv2dPass pass : {Conv2dPass::forward_bias, Conv2dPass::forward_bias_relu}) {
      std::string reason;
      EXPECT_TRUE(Conv2dPlan::find({.device_json = h200}, task_of(GetParam(), 128, pass, arithmetic), reason))
          << reason;
    }
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

INSTANTIATE_TEST_SUITE_P(Layers, Conv2dPlansCuda,
                         ::testing::Values(Case{"cifar10 conv1", 24, 24, 3, {.filters = 64, .kernel = 5}},
                                           Case{"cifar10 conv2", 12, 12, 64, {.filters = 64, .kernel = 5}},
                                           Case{"lenet conv1", 28, 28, 1, {.filters = 32, .kernel = 5}},
                                           Case{"lenet conv2", 14, 14, 32, {.filters = 64, .kernel = 5}},
                                           Case{"odd extents", 7, 5, 17, {.filters = 33, .kernel = 3}},
                                           Case{
                                               "more padding after than before", 6, 7, 5, {.filters = 33, .kernel = 4}},
                                           Case{"stride 2", 9, 8, 3, {.filters = 8, .kernel = 3, .stride = 2}},
                                           Case{"one by one", 1, 1, 1, {.filters = 1, .kernel = 1}}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

TEST(Conv2dPlansCuda, NoWorkspaceMeansAnotherKernelOrNone) {
  const Case conv1{"cifar10 conv1", 24, 24, 3, {.filters = 64, .kernel = 5}};
  Conv2dTask task = task_of(conv1, 128, Conv2dPass::weights_gradient, Arithmetic::tf32);
  task.workspace_bytes = 0;
  std::string reason;
  const auto plan = Conv2dPlan::find({.device_json = h200}, task, reason);
  EXPECT_TRUE(!plan || plan->workspace_bytes() == 0u);
}

TEST(Conv2dPlansCuda, ARefusalComesWithItsReason) {
  Conv2dTask task =
      task_of({"too wide", 4, 4, 1, {.filters = 1, .kernel = 3}}, 1, Conv2dPass::forward, Arithmetic::fp32);
  task.layout.weights.extents[1] = 2;  // channels that x does not have
  std::string reason;
  EXPECT_FALSE(Conv2dPlan::find({.device_json = h200}, task, reason));
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(reason.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace carillon::testing
