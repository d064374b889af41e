#include "kernels/broadcast/broadcast.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape x;
  std::vector<std::int64_t> axes;
};

class Mean : public ::testing::TestWithParam<Case> {
 protected:
  Shape kept() const {
    std::vector<std::int64_t> extents = GetParam().x.extents();
    for (const std::size_t axis : mean_axes({.axes = GetParam().axes}, GetParam().x)) extents[axis] = 1;
    return Shape(extents);
  }
  /// Returns, for each element of x, its position in y.
  std::vector<std::size_t> places() const {
    const Shape &x = GetParam().x, y = kept();
    std::vector<std::size_t> found;
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      std::int64_t rest = i, place = 0, stride = 1;
      for (std::size_t axis = x.rank(); axis-- > 0; rest /= x[axis], stride *= y[axis]) {
        if (y[axis] > 1) place += rest % x[axis] * stride;
      }
      found.push_back(static_cast<std::size_t>(place));
    }
    return found;
  }
  double count() const { return static_cast<double>(GetParam().x.element_count() / kept().element_count()); }
  std::vector<double> means(std::span<const float> x) const {
    std::vector<double> y(static_cast<std::size_t>(kept().element_count()));
    const auto of = places();
    for (std::size_t i = 0; i < x.size(); ++i) y[of[i]] += x[i] / count();
    return y;
  }
};

TEST_P(Mean, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam().x[0], threads);
    harness.finish(mean(harness.graph(), "op", harness.input("x", GetParam().x), {.axes = GetParam().axes}));
    const auto y = harness.forward();
    const auto wanted = means(harness.values("x"));
    ASSERT_EQ(y.size(), wanted.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], wanted[i], 1e-6) << i;
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    const auto of = places();
    for (std::size_t i = 0; i < of.size(); ++i) ASSERT_NEAR(harness.gradient("x")[i], dy[of[i]] / count(), 1e-7) << i;
  }
}

TEST_P(Mean, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().x[0]);
  harness.finish(mean(harness.graph(), "op", harness.input("x", GetParam().x), {.axes = GetParam().axes}));
  harness.expect_gradients_match_differences(1e-1, 5e-3);
}

TEST_P(Mean, KernelsEqualTheDefinition) {
  const Shape &x_shape = GetParam().x, y_shape = kept();
  const std::vector<float> x = random_values(static_cast<std::size_t>(x_shape.element_count()), 1);
  const std::vector<float> dy = random_values(static_cast<std::size_t>(y_shape.element_count()), 2);
  const auto wanted = means(x);
  const auto of = places();
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> y = filled<float>(dy.size()), dx = filled<float>(x.size());
    emulate(ForEachElement{mean_forward(y_shape, x_shape, x.data(), y.data()), y_shape.element_count()}, order);
    emulate(ForEachElement{mean_backward(y_shape, x_shape, dy.data(), dx.data()), x_shape.element_count()}, order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], wanted[i], 1e-6) << i;
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], dy[of[i]] / count(), 1e-7) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Mean,
                         ::testing::Values(Case{{3, 1}, {1}}, Case{{3, 17}, {-1}}, Case{{2, 5, 7}, {1}},
                                           Case{{2, 5, 7}, {2}}, Case{{2, 5, 7}, {1, 2}}, Case{{2, 5, 6, 3}, {1, 2}},
                                           Case{{2, 5, 6, 3}, {3, 1}}, Case{{40, 9, 9, 33}, {-3, -2}},
                                           Case{{40, 9, 9, 33}, {3}}));

TEST(MeanOp, KeepsOrDropsItsAxes) {
  OpHarness harness(2);
  Graph& graph = harness.graph();
  const Value x = harness.input("x", {2, 3, 4, 5});
  EXPECT_EQ(graph.shape(mean(graph, "a", x, {.axes = {1, 3}})), (Shape{2, 4}));
  EXPECT_EQ(graph.shape(mean(graph, "b", x, {.axes = {1, 3}, .keeps_axes = true})), (Shape{2, 1, 4, 1}));
  EXPECT_EQ(graph.shape(mean(graph, "c", x, {.axes = {1, 2, 3}})), (Shape{2}));
}

TEST(MeanOp, RefusesOtherAxes) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const std::vector<std::int64_t>& axes) {
    EXPECT_THROW(mean(harness.graph(), "op", x, {.axes = axes}), Error);
  };
  refuses({});
  refuses({0});
  refuses({-3});
  refuses({3});
  refuses({1, 1});
  refuses({2, -1});
}

}  // namespace
}  // namespace carillon::testing
