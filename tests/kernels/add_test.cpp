// Tests `add` of two inputs of equal shapes. broadcast_test.cpp tests other shapes.
#include <gtest/gtest.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(Add, EqualsTheDefinitionBothWays) {
  for (const std::int64_t size : {1, 17, 40000}) {
    OpHarness harness(3, 2);
    const Value a = harness.input("a", {3, size}), b = harness.input("b", {3, size});
    harness.finish(add(harness.graph(), "sum", a, b));
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], harness.values("a")[i] + harness.values("b")[i]) << i;
      ASSERT_EQ(harness.gradient("a")[i], dy[i]) << i;
      ASSERT_EQ(harness.gradient("b")[i], dy[i]) << i;
    }
  }
}

TEST(Add, WithReluEqualsTheDefinitionBothWays) {
  for (const std::int64_t size : {1, 17, 40000}) {
    OpHarness harness(3, 2);
    const Value a = harness.input("a", {3, size}), b = harness.input("b", {3, size});
    harness.finish(relu(harness.graph(), "relu", add(harness.graph(), "sum", a, b)));
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float sum = harness.values("a")[i] + harness.values("b")[i];
      ASSERT_EQ(y[i], std::max(sum, 0.0f)) << i;
      ASSERT_EQ(harness.gradient("a")[i], sum > 0.0f ? dy[i] : 0.0f) << i;
      ASSERT_EQ(harness.gradient("b")[i], sum > 0.0f ? dy[i] : 0.0f) << i;
    }
  }
}

TEST(Add, RefusesOtherShapes) {
  OpHarness harness(2);
  EXPECT_THROW(add(harness.graph(), "sum", harness.input("a", {2, 3}), harness.input("b", {2, 4})), Error);
}

/// A residual block. In the backward pass, an op may overwrite the gradient of its output. Overwriting must not change
/// a gradient that another op still reads.
TEST(Add, GradientsThroughBranchesMatchFiniteDifferences) {
  OpHarness harness(3);
  Graph& graph = harness.graph();
  const Value x = harness.input("x", {3, 6});
  const Value a = relu(graph, "a/relu", dense(graph, "a", x, {.units = 6}));
  const Value b = dense(graph, "b", a, {.units = 6});
  const Value sum = relu(graph, "sum/relu", add(graph, "sum", x, b));
  const Value again = add(graph, "again", relu(graph, "c/relu", dense(graph, "c", sum, {.units = 6})), sum);
  harness.finish(add(graph, "end", again, x));
  // Avoids the kinks of the ReLUs: every second unit is always on, and the other units are always off.
  for (const std::string layer : {"a", "c"}) {
    harness.set(layer + "/biases", std::vector<float>{9.0f, -9.0f, 9.0f, -9.0f, 9.0f, -9.0f});
  }
  harness.set("b/biases", std::vector<float>(6, 40.0f));
  harness.expect_gradients_match_differences(1e-2, 2e-2);
}

TEST(Add, AValueAddedToItselfHasTwiceTheGradient) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 5});
  harness.finish(add(harness.graph(), "twice", x, x));
  const auto y = harness.forward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness.backward();
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], 2.0f * harness.values("x")[i]);
    EXPECT_EQ(harness.gradient("x")[i], 2.0f * dy[i]);
  }
}

}  // namespace
}  // namespace carillon::testing
