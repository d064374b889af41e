#include "kernels/layout/layout.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape x;
  SplitParams params;  ///< makes three parts; the first and the last have equal sizes
};

class Split : public ::testing::TestWithParam<Case> {
 protected:
  /// Builds a graph that computes y = part 0 + 2 * part 2. No op reads part 1.
  void build(OpHarness& harness) {
    const Value x = harness.input("x", GetParam().x);
    const std::vector<Value> parts = split(harness.graph(), "split", x, GetParam().params);
    harness.finish(add(harness.graph(), "sum", parts[0], scale(harness.graph(), "twice", parts[2], 2.0f)));
  }
  /// Returns, for each part, the positions in x of its elements.
  std::vector<std::vector<std::size_t>> places() const {
    const Shape& x = GetParam().x;
    const std::size_t axis = split_axis(GetParam().params, x);
    std::int64_t inner = 1;
    for (std::size_t i = axis + 1; i < x.rank(); ++i) inner *= x[i];
    std::vector<std::vector<std::size_t>> found(GetParam().params.sizes.size());
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      std::int64_t at = i / inner % x[axis];
      std::size_t part = 0;
      while (at >= GetParam().params.sizes[part]) at -= GetParam().params.sizes[part++];
      found[part].push_back(static_cast<std::size_t>(i));
    }
    return found;
  }
};

TEST_P(Split, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam().x[0], threads);
    build(harness);
    const auto of = places();
    const auto x = harness.values("x");
    const auto y = harness.forward();
    ASSERT_EQ(y.size(), of[0].size());
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], x[of[0][i]] + 2.0f * x[of[2][i]]) << i;
      ASSERT_EQ(harness.gradient("x")[of[0][i]], dy[i]) << i;
      ASSERT_EQ(harness.gradient("x")[of[2][i]], 2.0f * dy[i]) << i;
    }
    for (const std::size_t place : of[1]) ASSERT_EQ(harness.gradient("x")[place], 0.0f) << place;
  }
}

TEST_P(Split, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().x[0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Split,
                         ::testing::Values(Case{{3, 3}, {.sizes = {1, 1, 1}}},
                                           Case{{2, 5, 7}, {.axis = 1, .sizes = {2, 1, 2}}},
                                           Case{{40, 5, 31}, {.axis = 2, .sizes = {8, 15, 8}}},
                                           Case{{3, 2, 3, 4, 10}, {.axis = 3, .sizes = {1, 2, 1}}},
                                           Case{{70, 9, 9, 64}, {.sizes = {16, 32, 16}}}));

TEST(SplitOp, RefusesOtherAxesAndSizes) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const SplitParams& params) {
    EXPECT_THROW(split(harness.graph(), "split", x, params), Error) << params.axis;
  };
  refuses({.axis = 0, .sizes = {1, 1}});
  refuses({.axis = 3, .sizes = {1, 1}});
  refuses({.axis = -2, .sizes = {3}});
  refuses({.axis = 1, .sizes = {}});
  refuses({.axis = 1, .sizes = {1, 1}});
  refuses({.axis = 1, .sizes = {4, -1}});
  refuses({.axis = 2, .sizes = {4, 0}});
}

}  // namespace
}  // namespace carillon::testing
