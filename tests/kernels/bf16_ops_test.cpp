// Compares every op with bf16 activations on a CPU with the same op in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_results.h"

namespace carillon::testing {
namespace {

class Bf16Ops : public ::testing::TestWithParam<OpCase> {
 protected:
  static OpResults results(Arithmetic arithmetic, int threads = 1) {
    CpuDevice device(threads);
    OpOnCpu op(GetParam(), device, arithmetic);
    return results_of(GetParam(), op.harness());
  }
};
std::string name_of(const ::testing::TestParamInfo<OpCase>& op) { return op.param.name; }
std::vector<OpCase> cases_where(bool (*holds)(const OpCase&)) {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [&](const OpCase& op) { return !holds(op); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Ops, ::testing::ValuesIn(op_cases()), name_of);
class Bf16OpsThatRoundOnce : public Bf16Ops {};
INSTANTIATE_TEST_SUITE_P(Some, Bf16OpsThatRoundOnce,
                         ::testing::ValuesIn(cases_where([](const OpCase& op) { return op.rounds_once; })), name_of);
class Bf16OpsWithInputs : public Bf16Ops {};
INSTANTIATE_TEST_SUITE_P(Some, Bf16OpsWithInputs,
                         ::testing::ValuesIn(cases_where([](const OpCase& op) { return op.image_bytes == 1; })),
                         name_of);

TEST_P(Bf16Ops, AreNearFloat32) {
  expect_close(results(Arithmetic::fp32), results(Arithmetic::bf16), GetParam().bf16_tolerance);
}

/// These ops compute sums and functions in float32 and round each output once. So an output's error is at most half a
/// unit of its last place.
TEST_P(Bf16OpsThatRoundOnce, DoSo) {
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

TEST_P(Bf16OpsWithInputs, PassOnNanAndInfinity) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CpuDevice device(1);
    OpOnCpu op(GetParam(), device, Arithmetic::bf16);
    expect_reported(GetParam(), op.harness(), bad);
  }
}

}  // namespace
}  // namespace carillon::testing
