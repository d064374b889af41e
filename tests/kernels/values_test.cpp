#include "kernels/values/values.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/values/values_kernels.h"
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
    emulate(ForEachElement{RepeatValues<Bf16>{values.data(), 7, y.data()}, 7 * 50}, order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(to_float(y[i]), to_float(to_bf16(values[i % 7]))) << i;
  }
}

TEST(Variable, IsTheSameForEachSampleAndSumsTheGradients) {
  for (const int threads : {1, 3}) {
    OpHarness harness(5, threads);
    harness.finish(variable(harness.graph(), "op", {.shape = {3, 4000}}));
    const auto y = harness.forward();
    const auto w = harness.values("op/values");
    ASSERT_EQ(y.size(), 5 * w.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], w[i % w.size()]) << i;
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    for (std::size_t i = 0; i < w.size(); ++i) {
      float sum = 0.0f;
      for (std::size_t b = 0; b < 5; ++b) sum += dy[b * w.size() + i];
      ASSERT_EQ(harness.gradient("op/values")[i], sum) << i;
    }
  }
}

TEST(Variable, GradientsMatchFiniteDifferences) {
  OpHarness harness(3);
  const Value factors = variable(harness.graph(), "factors", {.shape = {4}});
  harness.finish(multiply(harness.graph(), "product", harness.input("x", {3, 2, 4}), factors));
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

TEST(Variable, RefusesAShapeWithoutExtents) {
  Graph graph(2);
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {0}, {3, -1}}) {
    EXPECT_THROW(variable(graph, "op", {.shape = shape}), Error);
  }
}

TEST(VariableKernels, RepeatAndSum) {
  const std::vector<float> w = random_values(7, 1);
  const std::vector<Bf16> dy = rounded<Bf16>(random_values(7 * 5, 2));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<Bf16> y = filled<Bf16>(7 * 5);
    std::vector<float> dw(7, 9.0f);
    emulate(ForEachElement{RepeatValues<Bf16>{w.data(), 7, y.data()}, 7 * 5}, order);
    emulate(ForEachElement{VariableBackward<Bf16>{dy.data(), 7, 5, dw.data()}, 7}, order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(to_float(y[i]), to_float(to_bf16(w[i % 7]))) << i;
    for (std::size_t i = 0; i < 7; ++i) {
      float sum = 0.0f;
      for (std::size_t b = 0; b < 5; ++b) sum += to_float(dy[b * 7 + i]);
      ASSERT_EQ(dw[i], sum) << i;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
