#include "kernels/gather/gather.h"

#include <gtest/gtest.h>

#include <limits>

#include "carillon/core/error.h"
#include "kernels/gather/gather_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct GatherCase {
  Shape x;
  GatherParams params;

  std::int64_t count() const { return static_cast<std::int64_t>(params.indices.size()) / params.terms; }
};

/// Calls visit(element of y, element of x, weight) for each term of each element of y, in the order of the definition.
template <typename Visit>
void for_terms(const GatherCase& of, const Visit& visit) {
  const std::size_t axis = gather_axis(of.params, of.x);
  std::int64_t outer = 1, inner = 1;
  for (std::size_t k = 0; k < axis; ++k) outer *= of.x[k];
  for (std::size_t k = axis + 1; k < of.x.rank(); ++k) inner *= of.x[k];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < of.count(); ++i) {
      for (std::int64_t e = 0; e < inner; ++e) {
        for (std::int64_t k = 0; k < of.params.terms; ++k) {
          const auto term = static_cast<std::size_t>(i * of.params.terms + k);
          const std::int64_t index = of.params.indices[term];
          const float weight = of.params.weights.empty() ? 1.0f : of.params.weights[term];
          if (index < 0) continue;
          visit(static_cast<std::size_t>((o * of.count() + i) * inner + e),
                static_cast<std::size_t>((o * of.x[axis] + index) * inner + e), weight);
        }
      }
    }
  }
}

class Gather : public ::testing::TestWithParam<GatherCase> {};

TEST_P(Gather, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(GetParam().x[0], threads);
    harness.finish(gather(harness.graph(), "op", harness.input("x", GetParam().x), GetParam().params));
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    harness.backward();
    const auto x = harness.values("x");
    std::vector<double> expected(y.size(), 0.0), gradient(x.size(), 0.0);
    for_terms(GetParam(), [&](std::size_t to, std::size_t from, float weight) {
      expected[to] += static_cast<double>(weight) * static_cast<double>(x[from]);
      gradient[from] += static_cast<double>(weight) * static_cast<double>(dy[to]);
    });
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-6) << i;
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(harness.gradient("x")[i], gradient[i], 1e-5) << i;
    harness.expect_gradients_match_differences(1e-2, 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Gather,
    ::testing::Values(GatherCase{{3, 1}, {.indices = {0}}}, GatherCase{{2, 5}, {.indices = {4, 4, 0, -1, 2, 1, 1}}},
                      GatherCase{{2, 5, 7}, {.axis = 1, .indices = {3, 0, 3}}},
                      GatherCase{{2, 5, 7}, {.axis = 1, .indices = {-1, -1}}},  // -1 means no element of x
                      GatherCase{{2, 4, 3, 5}, {.axis = 2, .indices = {2, 1, 0, 0}}},
                      GatherCase{{2, 4, 6}, {.axis = 1, .indices = {0, 1, 3, 3, 2, -1}, .terms = 2}},
                      GatherCase{{2, 4, 300},
                                 {.axis = 1,
                                  .indices = {0, 1, 1, 2, 2, 3},
                                  .weights = {0.25f, 0.75f, 0.5f, 0.5f, -1.0f, 3.0f},
                                  .terms = 2}}));

/// The thread of an element adds only the terms of this element.
TEST(GatherKernel, AddsTheTermsOfEachRow) {
  const std::vector<std::int32_t> offsets{0, 2, 2, 3}, indices{1, 0, 1};
  const std::vector<float> weights{2.0f, -1.0f, 0.5f};
  const std::vector<float> x = random_values(2 * 2 * 3, 1);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> y = filled<float>(2 * 3 * 3);
    emulate(ForEachElement{AddWeightedRows<float>{3, 2, 3, offsets.data(), indices.data(), weights.data(), x.data(),
                                                  y.data()},
                           static_cast<std::int64_t>(y.size())},
            order);
    for (std::size_t o = 0; o < 2; ++o) {
      for (std::size_t e = 0; e < 3; ++e) {
        const float first = x[o * 6 + e], second = x[o * 6 + 3 + e];
        EXPECT_FLOAT_EQ(y[o * 9 + e], 2.0f * second - first);
        EXPECT_EQ(y[o * 9 + 3 + e], 0.0f);
        EXPECT_FLOAT_EQ(y[o * 9 + 6 + e], 0.5f * second);
      }
    }
  }
}

TEST(GatherOp, RefusesOtherElements) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 4});
  const auto refuses = [&](const GatherParams& params) {
    EXPECT_THROW(gather(harness.graph(), "op", x, params), Error);
  };
  refuses({});
  refuses({.axis = 0, .indices = {0}});
  refuses({.axis = 3, .indices = {0}});
  refuses({.indices = {4}});
  refuses({.indices = {-2}});
  refuses({.indices = {0, 1, 2}, .terms = 2});
  refuses({.indices = {0, 1}, .terms = 0});
  refuses({.indices = {0, 1}, .weights = {1.0f}});
  refuses({.indices = {0}, .weights = {std::numeric_limits<float>::infinity()}});
}

}  // namespace
}  // namespace carillon::testing
