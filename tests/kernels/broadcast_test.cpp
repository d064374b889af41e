#include "kernels/broadcast/broadcast.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/broadcast/broadcast_kernels.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape a, b;
};

/// Returns the position, in a tensor of `shape`, of the element that is broadcast to the indices `indices` of the
/// result. The result has at least as many axes as `shape`.
std::size_t position_of(const Shape& shape, const std::vector<std::int64_t>& indices) {
  std::int64_t position = indices[0];
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) {
    const std::int64_t index = indices[indices.size() - shape.rank() + axis];
    position = position * shape[axis] + (shape[axis] == 1 ? 0 : index);
  }
  return static_cast<std::size_t>(position);
}

/// Computes the result y and the gradients of a and b in double, by the definition.
struct Expected {
  std::vector<double> y, da, db;
};

Expected expected(const Case& c, bool multiplies, std::span<const float> a, std::span<const float> b,
                  std::span<const float> dy) {
  const Shape shape = broadcast_shape(c.a, c.b);
  Expected found{.y = {}, .da = std::vector<double>(a.size()), .db = std::vector<double>(b.size())};
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    std::vector<std::int64_t> indices(shape.rank());
    std::int64_t rest = i;
    for (std::size_t axis = shape.rank(); axis-- > 0; rest /= shape[axis]) indices[axis] = rest % shape[axis];
    const std::size_t at_a = position_of(c.a, indices), at_b = position_of(c.b, indices);
    const double first = a[at_a], second = b[at_b], given = dy[static_cast<std::size_t>(i)];
    found.y.push_back(multiplies ? first * second : first + second);
    found.da[at_a] += multiplies ? given * second : given;
    found.db[at_b] += multiplies ? given * first : given;
  }
  return found;
}

void expect_near(std::span<const float> found, const std::vector<double>& wanted, const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  double largest = 1.0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 3e-6 * largest) << what << " " << i;
}

class Broadcast : public ::testing::TestWithParam<std::tuple<Case, bool>> {
 protected:
  const Case& shapes() const { return std::get<0>(GetParam()); }
  bool multiplies() const { return std::get<1>(GetParam()); }

  void build(OpHarness& harness) {
    const Value a = harness.input("a", shapes().a), b = harness.input("b", shapes().b);
    harness.finish(multiplies() ? multiply(harness.graph(), "op", a, b) : add(harness.graph(), "op", a, b));
  }
};

TEST_P(Broadcast, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(shapes().a[0], threads);
    build(harness);
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    const Expected wanted = expected(shapes(), multiplies(), harness.values("a"), harness.values("b"), dy);
    expect_near(y, wanted.y, "y");
    harness.backward();
    expect_near(harness.gradient("a"), wanted.da, "da");
    expect_near(harness.gradient("b"), wanted.db, "db");
  }
}

TEST_P(Broadcast, GradientsMatchFiniteDifferences) {
  OpHarness harness(shapes().a[0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

template <bool multiplies>
void expect_kernels_as_the_definition(const Case& c) {
  const Shape y_shape = broadcast_shape(c.a, c.b);
  const auto count = [](const Shape& shape) { return static_cast<std::size_t>(shape.element_count()); };
  const std::vector<float> a = random_values(count(c.a), 1), b = random_values(count(c.b), 2),
                           dy = random_values(count(y_shape), 3);
  const Expected wanted = expected(c, multiplies, a, b, dy);
  const BroadcastAxes axes = broadcast_axes(c.a, c.b);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> y = filled<float>(dy.size()), da = filled<float>(a.size()), db = filled<float>(b.size());
    const BroadcastForward<float, multiplies> forward{axes,
                                                      c.a.elements_per_sample(),
                                                      c.b.elements_per_sample(),
                                                      y_shape.elements_per_sample(),
                                                      a.data(),
                                                      b.data(),
                                                      y.data()};
    emulate(ForEachElement{forward, y_shape.element_count()}, order);
    emulate(ForEachElement{broadcast_gradient<float, multiplies>(axes, c.a, c.b, dy.data(), b.data(), da.data()),
                           c.a.element_count()},
            order);
    emulate(
        ForEachElement{broadcast_gradient<float, multiplies>(exchanged(axes), c.b, c.a, dy.data(), a.data(), db.data()),
                       c.b.element_count()},
        order);
    expect_near(y, wanted.y, "y");
    expect_near(da, wanted.da, "da");
    expect_near(db, wanted.db, "db");
  }
}

TEST_P(Broadcast, KernelsEqualTheDefinition) {
  if (multiplies()) {
    expect_kernels_as_the_definition<true>(shapes());
  } else {
    expect_kernels_as_the_definition<false>(shapes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Broadcast,
    ::testing::Combine(::testing::Values(Case{{2, 7}, {2, 1}}, Case{{3}, {3}}, Case{{3, 1}, {3, 1, 1}},
                                         Case{{2, 3, 5, 17}, {2, 17}}, Case{{2, 17}, {2, 3, 5, 17}},
                                         Case{{3, 4, 5, 6}, {3, 4, 1, 6}}, Case{{3, 4, 1, 6}, {3, 1, 5, 1}},
                                         Case{{2, 3, 1, 4, 1, 2}, {2, 1, 5, 4, 3, 2}}, Case{{4, 6, 5}, {4, 6, 1}},
                                         Case{{40, 9, 9, 33}, {40, 33}}, Case{{5, 1, 1, 8}, {5, 8}}),
                       ::testing::Bool()));

TEST(Multiply, OfEqualShapesIsTheProduct) {
  OpHarness harness(3);
  const Value a = harness.input("a", {3, 50, 40});
  harness.finish(multiply(harness.graph(), "square", a, a));
  const auto y = harness.forward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness.backward();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float value = harness.values("a")[i];
    ASSERT_EQ(y[i], value * value);
    ASSERT_FLOAT_EQ(harness.gradient("a")[i], 2.0f * dy[i] * value);
  }
}

TEST(BroadcastAxes, AreAsFewAsPossible) {
  EXPECT_EQ(broadcast_axes({9, 7, 7, 64}, {9, 64}).count, 2);
  EXPECT_EQ(broadcast_axes({9, 7, 7, 64}, {9, 7, 7, 1}).count, 2);
  EXPECT_EQ(broadcast_axes({9, 7, 7, 64}, {9, 7, 7, 64}).count, 1);
  EXPECT_EQ(broadcast_axes({9, 7, 7, 64}, {9, 7, 1, 64}).count, 3);
  EXPECT_EQ(broadcast_axes({9, 1, 1}, {9, 1}).count, 1);
}

TEST(BroadcastAxes, RefuseOtherShapes) {
  const auto refuses = [](const Shape& a, const Shape& b) {
    EXPECT_THROW(broadcast_axes(a, b), Error) << a.text() << " " << b.text();
  };
  refuses({2, 3}, {2, 4});
  refuses({2, 3}, {1, 3});
  refuses({2, 3}, {});
  refuses({2, 3, 1}, {2, 2, 1});
  refuses({1, 2, 2, 2, 2, 2, 2, 2}, {1, 1, 2, 1, 2, 1, 2, 1});
}

}  // namespace
}  // namespace carillon::testing
