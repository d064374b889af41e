#include "kernels/lrn/lrn.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape shape;
  LrnParams params;
  int threads = 1;
};

/// Computes y and dx in double by the definition, one pixel after the other.
struct Reference {
  std::vector<double> y, dx;

  Reference(std::span<const float> x, std::span<const float> dy, std::size_t channels, const LrnParams& params)
      : y(x.size()), dx(x.size()) {
    for (std::size_t first = 0; first < x.size(); first += channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        const double s = sum_at(x.subspan(first, channels), c, params);
        y[first + c] = x[first + c] * std::pow(s, -static_cast<double>(params.beta));
        add_gradient(x.subspan(first, channels), dy[first + c], c, s, params, dx.data() + first);
      }
    }
  }

 private:
  static std::size_t window_begin(std::size_t c, const LrnParams& params) {
    return c - std::min<std::size_t>(c, static_cast<std::size_t>(params.depth_radius));
  }
  static std::size_t window_end(std::size_t c, std::size_t channels, const LrnParams& params) {
    return std::min(channels, c + static_cast<std::size_t>(params.depth_radius) + 1);
  }
  static double sum_at(std::span<const float> x, std::size_t c, const LrnParams& params) {
    double squares = 0.0;
    for (std::size_t i = window_begin(c, params); i < window_end(c, x.size(), params); ++i) {
      squares += static_cast<double>(x[i]) * x[i];
    }
    return params.bias + params.alpha * squares;
  }
  /// Adds to dx the contribution of channel c of y. For every channel i, this is dy times the derivative of y_c with
  /// respect to x_i. `dy`: gradient of y_c. `s`: sum_at of channel c.
  static void add_gradient(std::span<const float> x, double dy, std::size_t c, double s, const LrnParams& params,
                           double* dx) {
    dx[c] += dy * std::pow(s, -static_cast<double>(params.beta));
    const double common = -2.0 * params.alpha * params.beta * dy * x[c] * std::pow(s, -params.beta - 1.0);
    for (std::size_t i = window_begin(c, params); i < window_end(c, x.size(), params); ++i) dx[i] += common * x[i];
  }
};

class Lrn : public ::testing::TestWithParam<Case> {
 protected:
  Lrn() : harness_(GetParam().shape[0], GetParam().threads) {
    harness_.finish(lrn(harness_.graph(), "norm", harness_.input("x", GetParam().shape), GetParam().params));
    for (float& x : harness_.values("x")) x *= 3.0f;
  }
  OpHarness harness_;
};

TEST_P(Lrn, EqualsTheDefinitionForwardAndBackward) {
  const auto y = harness_.forward();
  harness_.backward();
  const std::span<const float> x = harness_.values("x"), dx = harness_.gradient("x");
  const Reference expected(x, OpHarness::output_gradient(x.size()),
                           static_cast<std::size_t>(GetParam().shape.extents().back()), GetParam().params);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y[i], expected.y[i], 2e-6 * (std::abs(expected.y[i]) + 0.1)) << i;
    ASSERT_NEAR(dx[i], expected.dx[i], 1e-5) << i;
  }
}

TEST_P(Lrn, GradientsMatchFiniteDifferences) { harness_.expect_gradients_match_differences(1e-2, 2e-3); }

constexpr LrnParams strong{.depth_radius = 4, .bias = 1.0f, .alpha = 0.3f, .beta = 0.75f};

INSTANTIATE_TEST_SUITE_P(Sizes, Lrn,
                         ::testing::Values(Case{{1, 1, 1, 1}, strong}, Case{{1, 2, 3, 3}, strong},
                                           Case{{3, 5, 4, 64}, strong}, Case{{2, 3, 3, 17}, strong, 2},
                                           Case{{7, 9, 5, 64}, strong, 2}, Case{{5, 33}, strong},
                                           Case{{3, 11, 48}, strong}, Case{{2, 3, 1, 1500}, strong},
                                           Case{{130, 12, 12, 5}, strong, 2}));

INSTANTIATE_TEST_SUITE_P(
    Parameters, Lrn,
    ::testing::Values(Case{{2, 5, 5, 64}, {}, 2}, Case{{2, 5, 5, 7}, {.depth_radius = 0, .alpha = 0.3f}},
                      Case{{2, 5, 5, 64}, {.depth_radius = 5, .alpha = 1.0f, .beta = 0.5f}, 2},
                      Case{{2, 3, 3, 20}, {.depth_radius = 2, .bias = 2.0f, .alpha = 0.1f}},
                      Case{{2, 3, 3, 6}, {.depth_radius = 9, .bias = 0.5f, .alpha = 0.1f, .beta = 1.3f}},
                      Case{{2, 3, 3, 65}, {.depth_radius = 4, .alpha = 0.1f, .beta = 1.0f}}));

TEST(Lrn, DoesNotDependOnTheThreadCount) {
  std::vector<float> y, dx;
  for (const int threads : {1, 2, 3}) {
    OpHarness harness(37, threads);
    harness.finish(lrn(harness.graph(), "norm", harness.input("x", {37, 6, 5, 64})));
    const auto got = harness.forward();
    harness.backward();
    const auto gradient = harness.gradient("x");
    if (threads == 1) {
      y.assign(got.begin(), got.end());
      dx.assign(gradient.begin(), gradient.end());
    }
    EXPECT_TRUE(std::ranges::equal(got, y)) << threads;
    EXPECT_TRUE(std::ranges::equal(gradient, dx)) << threads;
  }
}

TEST(Lrn, BearsMoreThreadsThanItWasBuiltWith) {
  OpHarness harness(64, 1);
  harness.finish(lrn(harness.graph(), "norm", harness.input("x", {64, 12, 12, 64})));
  const auto alone = harness.forward();
  const std::vector<float> expected(alone.begin(), alone.end());
  omp_set_num_threads(4);
  EXPECT_TRUE(std::ranges::equal(harness.forward(), expected));
}

TEST(Lrn, NotANumberStaysInItsWindow) {
  OpHarness harness(1);
  harness.finish(lrn(harness.graph(), "norm", harness.input("x", {1, 2, 16})));
  harness.values("x")[20] = std::nanf("");  // channel 4 of pixel 1
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 16 && i <= 24) << i;
  harness.values("x")[20] = 0.5f;
  // If the op's scratch memory kept the NaN, this forward pass would return NaNs.
  for (const float value : harness.forward()) EXPECT_FALSE(std::isnan(value));
}

TEST(Lrn, RefusesParametersOutOfRange) {
  Graph graph(1);
  const auto refused = [&](const LrnParams& params) { EXPECT_THROW(lrn(graph, "norm", Value{0}, params), Error); };
  refused({.depth_radius = -1});
  refused({.bias = 0.0f});
  refused({.alpha = -1.0f});
}

}  // namespace
}  // namespace carillon::testing
