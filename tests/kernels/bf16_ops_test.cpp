// Every op with bf16 activations on a CPU, compared with float32.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/device/available_isas.h"
#include "tests/support/op_cases.h"

namespace carillon::testing {
namespace {

class Bf16Ops : public ::testing::TestWithParam<OpCase> {
 protected:
  static OpResults results(Arithmetic arithmetic, int threads = 1, Isa isa = available_isas().back()) {
    CpuDevice device(threads, {.isa = isa});
    OpOnCpu op(GetParam(), device, arithmetic);
    return results_of(GetParam(), op.harness());
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, Bf16Ops, ::testing::ValuesIn(op_cases()), [](const auto& op) { return op.param.name; });

TEST_P(Bf16Ops, AreNearFloat32) {
  expect_close(results(Arithmetic::fp32), results(Arithmetic::bf16), GetParam().bf16_tolerance);
}

/// Sums and functions are computed in float32: an output is at most half a unit of its last place away.
TEST_P(Bf16Ops, RoundTheirOutputOnce) {
  if (!GetParam().rounds_once) return;
  const std::vector<float> expected = results(Arithmetic::fp32)["output"], found = results(Arithmetic::bf16)["output"];
  float largest = 0.0f;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], std::abs(expected[i]) * 0x1p-8f + 1e-5f * largest) << i;
  }
}

TEST_P(Bf16Ops, HaveEqualBitsAtAnyNumberOfThreads) {
  const OpResults expected = results(Arithmetic::bf16);
  for (const int threads : {2, 3}) EXPECT_EQ(results(Arithmetic::bf16, threads), expected) << threads;
}

TEST_P(Bf16Ops, PassOnNanAndInfinity) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CpuDevice device(1);
    OpOnCpu op(GetParam(), device, Arithmetic::bf16);
    expect_reported(GetParam(), op.harness(), bad);
  }
}

}  // namespace
}  // namespace carillon::testing
