#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/softmax/softmax_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Computes y and dx in double, by the definition.
struct Expected {
  std::vector<double> y, dx;
};

Expected expected(const std::vector<float>& x, const std::vector<float>& dy, std::size_t columns) {
  Expected found{.y = {}, .dx = {}};
  for (std::size_t row = 0; row < x.size(); row += columns) {
    const double largest = *std::max_element(x.data() + row, x.data() + row + columns);
    double sum = 0.0, slope = 0.0;
    for (std::size_t i = row; i < row + columns; ++i) sum += std::exp(x[i] - largest);
    for (std::size_t i = row; i < row + columns; ++i) {
      found.y.push_back(std::exp(x[i] - largest) / sum);
      slope += found.y[i] * dy[i];
    }
    for (std::size_t i = row; i < row + columns; ++i) found.dx.push_back(found.y[i] * (dy[i] - slope));
  }
  return found;
}

class Softmax : public ::testing::TestWithParam<Shape> {
 protected:
  std::size_t columns() const { return static_cast<std::size_t>(GetParam().extents().back()); }
  std::size_t count() const { return static_cast<std::size_t>(GetParam().element_count()); }
};

/// The op subtracts the maximum m of a row from x. Rounding x - m causes a relative error of y of up to 4e-6.
TEST_P(Softmax, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam()[0], threads);
    harness.finish(softmax(harness.graph(), "op", harness.input("x", GetParam())));
    const std::vector<float> x = random_values(count(), 1, -20.0f, 90.0f), dy = OpHarness::output_gradient(count());
    harness.set("x", x);
    const auto y = harness.forward();
    harness.backward();
    const Expected wanted = expected(x, dy, columns());
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], wanted.y[i], 1e-5 * wanted.y[i] + 1e-37) << i;
      ASSERT_NEAR(harness.gradient("x")[i], wanted.dx[i], 1e-6) << i;
    }
  }
}

TEST_P(Softmax, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam()[0]);
  harness.finish(softmax(harness.graph(), "op", harness.input("x", GetParam())));
  harness.expect_gradients_match_differences(1e-2, 1e-2);
}

template <typename T>
void expect_kernels_as_the_definition(std::size_t count, std::size_t columns, double tolerance) {
  const std::vector<T> x = rounded<T>(random_values(count, 1, -5.0f, 5.0f)), dy = rounded<T>(random_values(count, 2));
  const Expected wanted = expected(floats(x), floats(dy), columns);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(count), dx = dy;
    const SoftmaxRows<T> rows{static_cast<std::int64_t>(count / columns), static_cast<std::int64_t>(columns)};
    emulate(SoftmaxForward<T>{rows, x.data(), y.data()}, order);
    emulate(SoftmaxBackward<T>{rows, y.data(), dx.data(), dx.data()}, order);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(to_float(y[i]), wanted.y[i], tolerance) << i;
      ASSERT_NEAR(to_float(dx[i]), wanted.dx[i], tolerance) << i;
    }
  }
}

TEST_P(Softmax, KernelsEqualTheDefinition) {
  expect_kernels_as_the_definition<float>(count(), columns(), 1e-6);
  expect_kernels_as_the_definition<Bf16>(count(), columns(), 8e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Softmax,
                         ::testing::Values(Shape{3, 1}, Shape{3, 7}, Shape{2, 3, 32}, Shape{2, 2, 3, 33},
                                           Shape{9, 5, 197}, Shape{70, 1000}));

TEST(SoftmaxOp, OfNanOrInfinityIsNan) {
  for (const float bad : {NAN, INFINITY}) {
    OpHarness harness(2);
    harness.finish(softmax(harness.graph(), "op", harness.input("x", {2, 40})));
    std::vector<float> x(80, 1.0f);
    x[50] = bad;
    harness.set("x", x);
    const auto y = harness.forward();
    for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(std::isnan(y[i]), i >= 40) << i;
  }
}

TEST(SoftmaxOp, GivesNoWeightToMinusInfinity) {
  OpHarness harness(1);
  harness.finish(softmax(harness.graph(), "op", harness.input("x", {1, 3})));
  harness.set("x", std::vector<float>{2.0f, -INFINITY, 2.0f});
  const auto y = harness.forward();
  EXPECT_EQ(y[0], 0.5f);
  EXPECT_EQ(y[1], 0.0f);
}

TEST(SoftmaxOp, RefusesNumbers) {
  OpHarness harness(2);
  EXPECT_THROW(softmax(harness.graph(), "op", harness.input("x", {2})), Error);
}

}  // namespace
}  // namespace carillon::testing
