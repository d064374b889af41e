#include "kernels/variable/variable.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/variable/variable_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

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
    emulate(ForEachElement{VariableForward<Bf16>{w.data(), 7, y.data()}, 7 * 5}, order);
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
