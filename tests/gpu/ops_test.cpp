// Compares every op's CUDA implementation with its CPU implementation.
#include <cmath>
#include <memory>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/dense/dense.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/ops_on_a_gpu.h"
#include "tests/support/switched_off.h"

namespace carillon::testing {
namespace {

TEST_P(OpsOnAGpu, HaveTheResultsOfTheCpu) { expect_like_cpu(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, OpsOnAGpu, ::testing::ValuesIn(op_cases()), [](const auto& op) { return op.param.name; });

/// Tests convolutions and dense ops that do not use their default implementation: the products of patches are off, and
/// the epilogue that sums bias gradients is on (src/device/cuda_backend.h).
class SwitchedOpsOnAGpu : public OpsOnAGpu {
 private:
  SwitchedOff products_{"patch_products,pointwise_products"};
};

TEST_P(SwitchedOpsOnAGpu, HaveTheResultsOfTheCpu) { expect_like_cpu(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, SwitchedOpsOnAGpu, ::testing::ValuesIn([] {
                           std::vector<OpCase> cases = op_cases();
                           std::erase_if(cases, [](const OpCase& op) {
                             return !op.name.starts_with("Conv2dOfP") && !op.name.starts_with("Dense");
                           });
                           return cases;
                         }()),
                         [](const auto& op) { return op.param.name; });

class OpOnAGpu : public GpuTest {};

TEST_F(OpOnAGpu, ANaNPassesThroughTheReluOfDense) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
    CudaDevice gpu(0);
    OpHarness harness(2, gpu, arithmetic);
    harness.finish(
        relu(harness.graph(), "relu", dense(harness.graph(), "layer", harness.input("x", {2, 3}), {.units = 8})));
    harness.set("x", std::vector<float>{1.0f, NAN, 1.0f, 1.0f, 1.0f, 1.0f});
    const std::vector<float> y = copy(harness.forward());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 8) << i;
  }
}

TEST_F(OpOnAGpu, BatchNormInEvaluation) {
  std::vector<float> y, moving_mean;
  const auto cpu = std::make_unique<CpuDevice>(1);
  CudaDevice gpu(0);
  for (Device* const device : std::initializer_list<Device*>{cpu.get(), &gpu}) {
    OpHarness harness(7, *device);
    harness.finish(batch_norm(harness.graph(), "norm", harness.input("x", {7, 3, 8})));
    harness.forward();
    const std::vector<float> found = copy(harness.evaluate()), state = copy(harness.state("norm/moving_mean"));
    if (device == cpu.get()) y = found;
    if (device == cpu.get()) moving_mean = state;
    expect_close({{"output", y}, {"state", moving_mean}}, {{"output", found}, {"state", state}}, 2e-6f);
  }
}

}  // namespace
}  // namespace carillon::testing
