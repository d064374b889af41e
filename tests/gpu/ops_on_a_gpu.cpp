#include "tests/gpu/ops_on_a_gpu.h"

#include <limits>
#include <memory>

#include "src/device/cuda_device.h"
#include "src/step/input/input_stage.h"

namespace carillon::testing {
namespace {

/// An op on a GPU, with a batch of noise and random variables.
struct OpUnderTest {
  NoiseBatch samples;
  OpHarness harness;
  std::unique_ptr<InputStage> input_stage;

  OpUnderTest(const OpCase& op, Device& device, Arithmetic arithmetic)
      : samples(40, static_cast<std::size_t>(op.batch), op.image_bytes),
        harness(op.batch, device, arithmetic),
        input_stage(make_input_stage(device, {.batch_size = static_cast<std::size_t>(op.batch),
                                              .image_bytes = op.image_bytes,
                                              .target_bytes = sizeof(std::int32_t)})) {
    harness.finish(op.build(harness), input_stage->inputs());
    input_stage->write(0, {.batch = samples.batch()});
    input_stage->upload(0, 1, device.stream());
  }
};

/// Expects that a NaN or an infinity in the input reaches the output, on the CPU and on the GPU, in every precision.
void expect_bad_values_propagate(const OpCase& op) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CpuDevice cpu(1);
    OpOnCpu on_cpu(op, cpu);
    expect_reported(op, on_cpu.harness(), bad);
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
      for (const bool fused_biases : {true, false}) {
        SCOPED_TRACE(::testing::Message() << "arithmetic " << static_cast<int>(arithmetic));
        set_conditions({.seed = 3, .fused_biases = fused_biases});
        CudaDevice gpu(0);
        OpUnderTest under_test(op, gpu, arithmetic);
        expect_reported(op, under_test.harness, bad);
      }
    }
  }
}

}  // namespace

void OpsOnAGpu::expect_like_cpu(const OpCase& op) {
  CpuDevice cpu(1);
  OpOnCpu on_cpu(op, cpu);
  const OpResults expected = results_of(op, on_cpu.harness());
  const std::pair<Arithmetic, float> tolerances[] = {{Arithmetic::fp32, op.fp32_tolerance},
                                                     {Arithmetic::tf32, op.tf32_tolerance},
                                                     {Arithmetic::bf16, op.bf16_tolerance}};
  for (const auto& [arithmetic, tolerance] : tolerances) {
    for (const bool fused_biases : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "tolerance " << tolerance << ", fused " << fused_biases);
      set_conditions({.seed = 3, .fused_biases = fused_biases});
      CudaDevice gpu(0);
      OpUnderTest under_test(op, gpu, arithmetic);
      expect_close(expected, results_of(op, under_test.harness), tolerance);
    }
  }
  expect_bad_values_propagate(op);
}

}  // namespace carillon::testing
