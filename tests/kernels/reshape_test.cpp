#include "kernels/layout/layout.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(Reshape, KeepsTheElements) {
  OpHarness harness(3, 2);
  const Value x = harness.input("x", {3, 4, 5});
  const Value y = reshape(harness.graph(), "rows", x, {.extents = {2, -1, 5}});
  EXPECT_EQ(harness.graph().shape(y), (Shape{3, 2, 2, 5}));
  harness.finish(reshape(harness.graph(), "flat", y, {.extents = {20}}));
  const auto found = harness.forward();
  const std::vector<float> dy = OpHarness::output_gradient(60);
  harness.backward();
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(found[i], harness.values("x")[i]);
    EXPECT_EQ(harness.gradient("x")[i], dy[i]);
  }
}

/// The ops before and after a reshape share its memory. Some of these ops work in place, and some overwrite gradients.
/// None of the ops may change a value or gradient that another op still reads.
TEST(Reshape, GradientsThroughBranchesMatchFiniteDifferences) {
  OpHarness harness(3);
  Graph& graph = harness.graph();
  const Value x = dense(graph, "a", harness.input("x", {3, 6}), {.units = 12});
  const Value rows = reshape(graph, "rows", x, {.extents = {4, 3}});
  const Value curved = sigmoid(graph, "sigmoid", rows);
  const Value scaled = scale(graph, "scale", rows, 0.5f);
  const Value product = multiply(graph, "product", curved, scaled);
  const Value flat = reshape(graph, "flat", product, {.extents = {-1}});
  harness.finish(add(graph, "sum", add(graph, "inner", flat, x), tanh(graph, "tanh", flat)));
  harness.expect_gradients_match_differences(1e-2, 1e-2);
}

TEST(Reshape, MayBeOneNumber) {
  OpHarness harness(3);
  const Value x = harness.input("x", {3, 1});
  EXPECT_EQ(harness.graph().shape(reshape(harness.graph(), "op", x, {.extents = {}})), (Shape{3}));
}

TEST(Reshape, RefusesOtherExtents) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const std::vector<std::int64_t>& extents) {
    EXPECT_THROW(reshape(harness.graph(), "op", x, {.extents = extents}), Error);
  };
  refuses({});
  refuses({13});
  refuses({5, -1});
  refuses({-1, -1});
  refuses({0, -1});
  refuses({-2, 6});
  refuses({max_attribute, max_attribute, max_attribute, 4});
}

}  // namespace
}  // namespace carillon::testing
