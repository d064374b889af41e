// Tests which kernel sums the gradient of a dense op's biases, if the optimisation bias_gradient_epilogue (an epilogue
// of cuBLASLt) is on.
#include <algorithm>

#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "kernels/scale_channels/scale_channels.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/op_harness.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

class BiasGradientOnAGpu : public GpuTest {
 protected:
  /// Returns the number of kernels in the backward pass of a dense op and of the activation after it.
  static std::uint64_t kernels_of_backward(const GpuConditions& conditions, ActivationKind activation,
                                           Arithmetic arithmetic = Arithmetic::bf16) {
    set_conditions(conditions);
    CudaDevice gpu(0);
    OpHarness harness(64, gpu, arithmetic);
    const Value y = dense(harness.graph(), "layer", harness.input("x", {64, 8}), {.units = 16});
    harness.finish(activated(activation, harness.graph(), y));
    harness.forward();
    const std::uint64_t before = gpu_calls()->kernels;
    harness.backward();
    return gpu_calls()->kernels - before;
  }
  static constexpr GpuConditions with_epilogue{}, without_epilogue{.fused_biases = false},
      with_undivided_epilogue{.divided_bias_gradients = false};

 private:
  SwitchedOff nothing_{""};
};

TEST_F(BiasGradientOnAGpu, IsPartOfTheProductOfTheWeightsGradient) {
  const std::uint64_t alone = kernels_of_backward(without_epilogue, ActivationKind::none);
  EXPECT_EQ(kernels_of_backward(with_epilogue, ActivationKind::none), alone - 1);
}

TEST_F(BiasGradientOnAGpu, HasItsOwnKernelIfTheProductWouldDivideItsSumsLess) {
  const std::uint64_t alone = kernels_of_backward(without_epilogue, ActivationKind::none);
  EXPECT_EQ(kernels_of_backward(with_undivided_epilogue, ActivationKind::none), alone);
}

TEST_F(BiasGradientOnAGpu, IsSummedByTheKernelThatAppliesTheReluMask) {
  const std::uint64_t alone = kernels_of_backward(without_epilogue, ActivationKind::relu);
  EXPECT_EQ(kernels_of_backward(with_epilogue, ActivationKind::relu), alone);
}

TEST_F(BiasGradientOnAGpu, IsSummedByTheGradientOfAGeluAfterTheOp) {
  const std::uint64_t with_activation = kernels_of_backward(without_epilogue, ActivationKind::gelu);
  EXPECT_EQ(with_activation, kernels_of_backward(without_epilogue, ActivationKind::none));
  EXPECT_EQ(kernels_of_backward(with_epilogue, ActivationKind::gelu), with_activation);
}

TEST_F(BiasGradientOnAGpu, HasItsOwnKernelInFloat32AndTf32) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32}) {
    const std::uint64_t alone = kernels_of_backward(without_epilogue, ActivationKind::none, arithmetic);
    EXPECT_EQ(kernels_of_backward(with_epilogue, ActivationKind::none, arithmetic), alone);
  }
}

/// Returns a network of dense layers. A GELU follows the first, scale_channels the second, and another dense layer the
/// third.
Network dense_network() {
  return make_network("dense", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
    const auto layer = [&](const std::string& name, Value x, std::int64_t units) {
      return dense(graph, name, x, {.units = units, .weights = weights});
    };
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = layer("expand", gelu(graph, "gelu", layer("first", x, 24)), 16);
    x = scale_channels(graph, "scale", x, {.initial_factor = 0.5f});
    return layer("logits", layer("last", x, 8), 10);
  });
}

Trained trained(const Training& training) {
  const NoiseRecords records(64, 784);
  CudaDevice gpu(0);
  const auto communicator = make_self_communicator(gpu);
  return train(training, records, gpu, *communicator);
}

TEST_F(BiasGradientOnAGpu, HasTheSameBitsInCapturedAndLaunchedSteps) {
  Training training{.network = dense_network(), .batch_size = 64, .steps = 40, .arithmetic = Arithmetic::bf16};
  const Trained captured = trained(training);
  EXPECT_TRUE(std::ranges::none_of(captured.captured_nodes, [](const std::string& node) {
    return node.find("GradientSums") != std::string::npos && node.find("Gelu") == std::string::npos;
  }));
  training.capture = false;
  expect_equal(captured, trained(training));
}

}  // namespace
}  // namespace carillon::testing
