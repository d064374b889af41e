#include "kernels/constant/constant.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/constant/constant_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(Constant, IsTheSameForEachSample) {
  const std::vector<float> values = random_values(30'000, 1);
  for (const int threads : {1, 3}) {
    OpHarness harness(5, threads);
    harness.finish(constant(harness.graph(), "op", {.shape = {3, 10'000}, .values = values}));
    const auto y = harness.forward();
    ASSERT_EQ(y.size(), 5 * values.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], values[i % values.size()]) << i;
  }
}

TEST(Constant, RepeatsOneValue) {
  OpHarness harness(2);
  const Value one = constant(harness.graph(), "one", {.shape = {3, 1, 2}, .values = {0.5f}});
  EXPECT_EQ(harness.graph().shape(one), Shape({2, 3, 1, 2}));
  EXPECT_EQ(harness.graph().shape(constant(harness.graph(), "number", {.values = {1.0f}})), Shape({2}));
  harness.finish(multiply(harness.graph(), "product", harness.input("x", {2, 3, 4, 2}), one));
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 0.5f * harness.values("x")[i]);
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

TEST(Constant, RefusesAnotherNumberOfValues) {
  Graph graph(2);
  const auto refuses = [&](const ConstantParams& params) { EXPECT_THROW(constant(graph, "op", params), Error); };
  refuses({.shape = {3}, .values = {1.0f, 2.0f}});
  refuses({.shape = {3}, .values = {}});
  refuses({.shape = {0}, .values = {1.0f}});
  refuses({.shape = {-1, -1}, .values = {1.0f}});
  refuses({.shape = std::vector<std::int64_t>(3, std::int64_t{1} << 31), .values = {1.0f}});
}

TEST(ConstantKernel, RepeatsTheValuesForEachSample) {
  const std::vector<float> values = random_values(7, 1);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<Bf16> y = filled<Bf16>(7 * 50);
    emulate(ForEachElement{ConstantForward<Bf16>{values.data(), 7, y.data()}, 7 * 50}, order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(to_float(y[i]), to_float(to_bf16(values[i % 7]))) << i;
  }
}

}  // namespace
}  // namespace carillon::testing
