// Which kernel computes the gradient of a dense op's biases.
#include "kernels/dense/dense.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

class BiasGradientOnAGpu : public GpuTest {
 protected:
  /// The kernels of a backward pass of a dense op, followed by an activation.
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
  void SetUp() override {
    GpuTest::SetUp();
    if (!gpu_calls()) GTEST_SKIP() << "needs the fake GPU's counts";
  }
  static constexpr GpuConditions with_epilogue{}, without_epilogue{.fused_biases = false},
      with_undivided_epilogue{.divided_bias_gradients = false};
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

}  // namespace
}  // namespace carillon::testing
