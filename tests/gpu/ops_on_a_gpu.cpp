#include "tests/gpu/ops_on_a_gpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "src/core/bf16.h"
#include "src/device/cuda_device.h"
#include "src/step/input/input_stage.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

/// The op on a device, with a batch of noise; its variables are random.
struct OpUnderTest {
  NoiseBatch samples;  // which a CPU's ops read in place
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

/// Variables have values that bfloat16 holds, so that no device rounds them.
OpResults results_of(const OpCase& op, Device& device, Arithmetic arithmetic = Arithmetic::fp32) {
  OpUnderTest under_test(op, device, arithmetic);
  OpHarness& harness = under_test.harness;
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    std::vector<float> values = copy(harness.values(spec.name));
    for (float& value : values) value = op.integers ? std::round(1.5f * value) : to_float(to_bf16(value));
    harness.set(spec.name, values);
  }
  OpResults results;
  results["output"] = copy(harness.forward());
  harness.backward();
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    results["gradient of " + spec.name] = copy(harness.gradient(spec.name));
  }
  return results;
}

/// Where a value of the input "x" or "z" is `bad`, or all are, what is not finite is in the output. An op of the
/// batch's images alone has no such input.
void expect_reported(const OpCase& op, Device& device, Arithmetic arithmetic, float bad) {
  OpUnderTest under_test(op, device, arithmetic);
  OpHarness& harness = under_test.harness;
  bool has_input = op.image_bytes > 1;
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    if (spec.name != "x" && spec.name != "z") continue;
    has_input = true;
    std::vector<float> values = copy(harness.values(spec.name));
    if (op.drops) std::ranges::fill(values, bad);
    values[values.size() / 2] = bad;
    harness.set(spec.name, values);
    const std::span<const float> output = harness.forward();
    EXPECT_FALSE(std::ranges::all_of(output, [](float y) { return std::isfinite(y); }))
        << bad << " is lost on " << device.name() << " in arithmetic " << static_cast<int>(arithmetic);
  }
  EXPECT_TRUE(has_input) << "nothing was put in: name the input x";
}

/// By both backends, in every arithmetic.
void expect_bad_values_propagate(const OpCase& op) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CpuDevice cpu(1);
    expect_reported(op, cpu, Arithmetic::fp32, bad);
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
      for (const bool fused_biases : {true, false}) {
        set_conditions({.seed = 3, .fused_biases = fused_biases});
        CudaDevice gpu(0);
        expect_reported(op, gpu, arithmetic, bad);
      }
    }
  }
}

}  // namespace

void expect_close(const OpResults& expected, const OpResults& got, float tolerance) {
  ASSERT_EQ(expected.size(), got.size());
  for (const auto& [name, values] : expected) {
    float scale = 0.0f;
    for (const float value : values) scale = std::max(scale, std::abs(value));
    ASSERT_EQ(values.size(), got.at(name).size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], got.at(name)[i], tolerance * scale) << name << " element " << i;
    }
  }
}

void OpsOnAGpu::expect_like_cpu(const OpCase& op) {
  CpuDevice cpu(1);
  const OpResults expected = results_of(op, cpu);
  const std::pair<Arithmetic, float> tolerances[] = {
      {Arithmetic::fp32, op.fp32_tolerance}, {Arithmetic::tf32, 2e-3f}, {Arithmetic::bf16, op.bf16_tolerance}};
  for (const auto& [arithmetic, tolerance] : tolerances) {
    for (const bool fused_biases : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "tolerance " << tolerance << ", fused " << fused_biases);
      set_conditions({.seed = 3, .fused_biases = fused_biases});
      CudaDevice gpu(0);
      expect_close(expected, results_of(op, gpu, arithmetic), tolerance);
    }
  }
  expect_bad_values_propagate(op);
}

}  // namespace carillon::testing
