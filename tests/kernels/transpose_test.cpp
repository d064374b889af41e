#include "kernels/layout/layout.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/layout/layout_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape x;
  std::vector<std::int64_t> axes;
};

class TransposeAxesOf : public ::testing::TestWithParam<Case> {
 protected:
  void build(OpHarness& harness) {
    const Value x = harness.input("x", GetParam().x);
    harness.finish(transpose(harness.graph(), "op", x, {.axes = GetParam().axes}));
  }
  /// Returns, for each element of y, its position in x.
  std::vector<std::size_t> places() const {
    const auto& [x, axes] = GetParam();
    std::vector<std::size_t> found;
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      std::vector<std::int64_t> indices(x.rank());
      std::int64_t rest = i, place = 0;
      for (std::size_t k = x.rank(); k-- > 0;) {
        const auto axis = static_cast<std::size_t>(axes[k]);
        indices[axis] = rest % x[axis];
        rest /= x[axis];
      }
      for (std::size_t axis = 0; axis < x.rank(); ++axis) place = place * x[axis] + indices[axis];
      found.push_back(static_cast<std::size_t>(place));
    }
    return found;
  }
};

TEST_P(TransposeAxesOf, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam().x[0], threads);
    build(harness);
    const auto of = places();
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], harness.values("x")[of[i]]) << i;
      ASSERT_EQ(harness.gradient("x")[of[i]], dy[i]) << i;
    }
  }
}

TEST_P(TransposeAxesOf, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().x[0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

template <typename T, int n>
void expect_kernel_transposes(const Case& c, const std::vector<std::size_t>& of) {
  const std::vector<T> x = rounded<T>(random_values(of.size(), 1));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(of.size());
    const TransposeForward<T, n> kernel{transpose_axes(c.x, c.axes), c.x.elements_per_sample(), x.data(), y.data()};
    emulate(ForEachElement{kernel, c.x.element_count() / n}, order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(to_float(y[i]), to_float(x[of[i]])) << i;
  }
}

TEST_P(TransposeAxesOf, KernelsEqualTheDefinition) {
  const auto& [x, axes] = GetParam();
  expect_kernel_transposes<float, 1>(GetParam(), places());
  const TransposeAxes found = transpose_axes(x, axes);
  const TransposeAxis& last = found.at[found.count - 1];
  if (last.stride == 1 && last.extent % 8 == 0) expect_kernel_transposes<Bf16, 8>(GetParam(), places());
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransposeAxesOf,
                         ::testing::Values(Case{{3}, {0}}, Case{{3, 5}, {0, 1}}, Case{{3, 5, 7}, {0, 2, 1}},
                                           Case{{2, 3, 4, 8}, {0, 2, 1, 3}}, Case{{2, 3, 4, 5}, {0, 3, 1, 2}},
                                           Case{{2, 1, 4, 5}, {0, 3, 1, 2}}, Case{{2, 3, 2, 5, 4}, {0, 4, 2, 3, 1}},
                                           Case{{40, 17, 33}, {0, 2, 1}}, Case{{30, 9, 10, 16}, {0, 2, 1, 3}}));

TEST(TransposeAxes, AreAsFewAsPossible) {
  const auto count = [](const Shape& x, const std::vector<std::int64_t>& axes) {
    return transpose_axes(x, axes).count;
  };
  EXPECT_EQ(count({9, 7, 7, 64}, {0, 1, 2, 3}), 1);
  EXPECT_EQ(count({9, 7, 7, 64}, {0, 3, 1, 2}), 2);
  EXPECT_EQ(count({9, 7, 1, 64}, {0, 2, 1, 3}), 1);
}

TEST(TransposeOp, RefusesOtherAxes) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4}), long_x = harness.input("long", {2, 2, 2, 2, 2, 2, 2, 2});
  const auto refuses = [&](const std::vector<std::int64_t>& axes, Value of) {
    EXPECT_THROW(transpose(harness.graph(), "op", of, {.axes = axes}), Error);
  };
  refuses({}, x);
  refuses({0, 1}, x);
  refuses({1, 0, 2}, x);
  refuses({0, 1, 1}, x);
  refuses({0, 1, 3}, x);
  refuses({0, -1, 1}, x);
  refuses({0, 7, 6, 5, 4, 3, 2, 1}, long_x);
}

}  // namespace
}  // namespace carillon::testing
