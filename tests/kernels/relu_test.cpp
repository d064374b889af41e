#include "kernels/relu/relu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/relu/relu_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// A ReLU with nobody to take it over, on a batch of 3.
class Relu : public ::testing::TestWithParam<int> {
 protected:
  Relu() {
    const Value x = harness_.input("x", {3, GetParam()});
    harness_.finish(relu(harness_.graph(), "relu", x));
  }
  OpHarness harness_{3, 2};
};

TEST_P(Relu, EqualsTheDefinitionBothWays) {
  std::vector<float> x(harness_.values("x").begin(), harness_.values("x").end());
  x[0] = 0.0f;  // passes no gradient
  harness_.set("x", x);
  const auto y = harness_.forward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness_.backward();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], std::max(x[i], 0.0f)) << i;
    EXPECT_EQ(harness_.gradient("x")[i], x[i] > 0.0f ? dy[i] : 0.0f) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Relu, ::testing::Values(1, 17, 40000));

TEST(ReluOp, ANanStaysOne) {
  OpHarness harness(1);
  harness.finish(relu(harness.graph(), "relu", harness.input("x", {1, 2})));
  harness.set("x", std::vector<float>{NAN, -1.0f});
  const auto y = harness.forward();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0f);
}

template <typename T>
void expect_kernels_as_the_definition() {
  const std::vector<T> x = rounded<T>(random_values(1000, 1)), dy = rounded<T>(random_values(1000, 2));
  std::vector<T> y = filled<T>(x.size()), dx = dy;
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    emulate(ForEachElement{ReluForward<T>{x.data(), y.data()}, 1000}, order);
    dx = dy;
    emulate(ForEachElement{ReluBackward<T>{y.data(), dx.data()}, 1000}, order);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(to_float(y[i]), std::max(to_float(x[i]), 0.0f)) << i;
      ASSERT_EQ(to_float(dx[i]), to_float(x[i]) > 0.0f ? to_float(dy[i]) : 0.0f) << i;
    }
  }
}

TEST(ReluKernels, EqualTheDefinition) {
  expect_kernels_as_the_definition<float>();
  expect_kernels_as_the_definition<Bf16>();
}

}  // namespace
}  // namespace carillon::testing
