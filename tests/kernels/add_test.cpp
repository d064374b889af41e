#include "kernels/add/add.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/add/add_kernels.h"
#include "kernels/dense/dense.h"
#include "kernels/fork/fork_kernels.h"
#include "kernels/relu/relu.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
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

TEST(Add, RefusesOtherShapes) {
  OpHarness harness(2);
  EXPECT_THROW(add(harness.graph(), "sum", harness.input("a", {2, 3}), harness.input("b", {2, 4})), Error);
}

/// A residual block as networks have it: each op's backward may use its gradient as scratch, and none may spoil
/// another's.
TEST(Add, GradientsThroughBranchesMatchFiniteDifferences) {
  OpHarness harness(3);
  Graph& graph = harness.graph();
  const Value x = harness.input("x", {3, 6});
  const Value a = relu(graph, "a/relu", dense(graph, "a", x, {.units = 6}));
  const Value b = dense(graph, "b", a, {.units = 6});
  const Value sum = relu(graph, "sum/relu", add(graph, "sum", x, b));
  const Value again = add(graph, "again", relu(graph, "c/relu", dense(graph, "c", sum, {.units = 6})), sum);
  harness.finish(add(graph, "end", again, x));
  // Clear of the kinks: every second unit surely on, the others surely off.
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

template <typename T>
void expect_kernels_as_the_definition() {
  const std::vector<T> a = rounded<T>(random_values(1000, 1)), b = rounded<T>(random_values(1000, 2));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(a.size()), db = filled<T>(a.size()), sum = a;
    emulate(ForEachElement{AddForward<T>{a.data(), b.data(), y.data()}, 1000}, order);
    emulate(ForEachElement{AddBackward<T>{a.data(), db.data()}, 1000}, order);
    emulate(ForEachElement{AddTo<T>{sum.data(), b.data()}, 1000}, order);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float expected = to_float(stored_as<T>(to_float(a[i]) + to_float(b[i])));
      ASSERT_EQ(to_float(y[i]), expected) << i;
      ASSERT_EQ(to_float(sum[i]), expected) << i;
      ASSERT_EQ(to_float(db[i]), to_float(a[i])) << i;
    }
  }
}

TEST(AddAndForkKernels, EqualTheDefinition) {
  expect_kernels_as_the_definition<float>();
  expect_kernels_as_the_definition<Bf16>();
}

}  // namespace
}  // namespace carillon::testing
