#include "kernels/pool/pool.h"
#include "src/graph/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>

#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, height, width, channels;
  MaxPoolParams params;
  int threads = 1;
  bool relu = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << Shape{c.batch, c.height, c.width, c.channels}.text() << " window " << c.params.window << " stride "
       << c.params.stride
       << (c.params.padding.is_same() ? " same" : " padded by " + std::to_string(c.params.padding.extent()))
       << " widths " << c.params.window_width << " " << c.params.stride_width << " pads "
       << ::testing::PrintToString(c.params.pads) << (c.relu ? " relu" : "") << " threads " << c.threads;
}

struct Expected {
  std::vector<float> y, dx;
};

/// Computes y and dx by loops. The code for the windows' offsets implements TensorFlow's rule independently of the op.
Expected naive_max_pool(const Case& c, std::span<const float> x, std::span<const float> dy) {
  const auto or_height = [](std::int64_t width, std::int64_t height) { return width == 0 ? height : width; };
  const bool same = c.params.padding == Padding::same && c.params.pads.empty();
  struct Axis {
    std::int64_t window, stride, output, before;
  };
  const auto along = [&](std::int64_t in, std::int64_t window, std::int64_t stride, std::size_t side) {
    const std::int64_t pad = c.params.padding.extent();
    const std::int64_t first = c.params.pads.empty() ? pad : c.params.pads[side];
    const std::int64_t last = c.params.pads.empty() ? pad : c.params.pads[side + 2];
    const auto output = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(same ? in : in + first + last - window + 1) / static_cast<double>(stride)));
    return Axis{window, stride, output,
                same ? std::max<std::int64_t>((output - 1) * stride + window - in, 0) / 2 : first};
  };
  const Axis rows = along(c.height, c.params.window, c.params.stride, 0);
  const Axis columns = along(c.width, or_height(c.params.window_width, c.params.window),
                             or_height(c.params.stride_width, c.params.stride), 1);
  Expected result{{}, std::vector<float>(x.size())};
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t p = 0; p < rows.output; ++p) {
      for (std::int64_t q = 0; q < columns.output; ++q) {
        for (std::int64_t channel = 0; channel < c.channels; ++channel) {
          std::int64_t best = -1;
          for (std::int64_t i = 0; i < rows.window; ++i) {
            for (std::int64_t j = 0; j < columns.window; ++j) {
              const std::int64_t h = p * rows.stride + i - rows.before, w = q * columns.stride + j - columns.before;
              if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
              const std::int64_t at = ((n * c.height + h) * c.width + w) * c.channels + channel;
              if (best < 0 || x[at] > x[best]) best = at;
            }
          }
          const bool passes = !c.relu || x[best] > 0.0f;
          if (passes) result.dx[best] += dy[result.y.size()];
          result.y.push_back(passes ? x[best] : 0.0f);
        }
      }
    }
  }
  return result;
}

class MaxPool : public ::testing::TestWithParam<Case> {
 protected:
  MaxPool() : harness_(GetParam().batch, GetParam().threads) {
    const auto& [batch, height, width, channels, params, threads, relu] = GetParam();
    const Value x = relu_if(relu, harness_.graph(), harness_.input("x", {batch, height, width, channels}));
    harness_.finish(max_pool(harness_.graph(), "pool", x, params));
  }

  void expect_the_definition() {
    const auto x = harness_.values("x");
    const auto y = harness_.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    const Expected expected = naive_max_pool(GetParam(), x, dy);
    ASSERT_EQ(y.size(), expected.y.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], expected.y[i]) << "y element " << i;
    for (int time = 0; time < 2; ++time) {  // the second pass shows that the op overwrites gradients
      harness_.backward();
      const auto dx = harness_.gradient("x");
      for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected.dx[i], 1e-6) << "dx element " << i;
    }
  }

  OpHarness harness_;
};

TEST_P(MaxPool, ForwardAndGradientEqualTheDefinition) { expect_the_definition(); }

TEST_P(MaxPool, TiesGoToTheFirst) {
  std::size_t i = 0;
  for (float& value : harness_.values("x")) value = static_cast<float>(i++ * 7 % 5 % 3) - 1.0f;  // only -1, 0 and 1
  expect_the_definition();
}

TEST_P(MaxPool, GradientsMatchFiniteDifferences) {
  // Any two values of x differ by at least 0.01, and each value differs from 0 by at least 0.005. Therefore a finite
  // difference does not change which value is the maximum.
  const auto x = harness_.values("x");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t shuffled = i * 7919 % 10007;
    x[i] = (static_cast<float>(shuffled) - 5000.5f) * 0.01f;
  }
  harness_.expect_gradients_match_differences(2e-3, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MaxPool,
    ::testing::Values(Case{1, 1, 1, 1, {.window = 3, .stride = 2}}, Case{1, 2, 3, 5, {.window = 3, .stride = 2}},
                      Case{2, 24, 24, 64, {.window = 3, .stride = 2}, 2},
                      Case{3, 12, 12, 64, {.window = 3, .stride = 2}, 2, true},
                      Case{5, 7, 10, 19, {.window = 3, .stride = 2}, 2, true},
                      Case{2, 9, 8, 16, {.window = 2, .stride = 2}}, Case{3, 28, 28, 6, {.window = 2, .stride = 2}, 2},
                      Case{2, 10, 10, 16, {.window = 2, .stride = 2, .padding = Padding::valid}},
                      Case{2, 11, 9, 3, {.window = 3, .stride = 2, .padding = Padding::valid}, 1, true},
                      Case{2, 14, 13, 17, {.window = 3, .stride = 2, .padding = Padding::symmetric(1)}, 2, true},
                      Case{1, 1, 2, 3, {.window = 3, .stride = 2, .padding = Padding::symmetric(2)}},
                      // The padding is on both sides, and a pixel is in 25 windows.
                      Case{1, 8, 8, 33, {.window = 5, .stride = 1}, 2},
                      Case{2, 9, 11, 17, {.window = 2, .stride = 3}, 2},  // some pixels are in no window
                      Case{2, 9, 8, 16, {.window = 3, .window_width = 1}, 3},
                      Case{2, 9, 8, 5, {.window = 1, .window_width = 7}},
                      Case{2, 9, 8, 5, {.window = 3, .stride = 2, .stride_width = 1}, 3, true},
                      Case{2, 9, 8, 16, {.window = 2, .stride = 1, .stride_width = 3}},
                      Case{2, 9, 8, 16, {.window = 3, .stride = 2, .pads = {0, 0, 1, 1}}},
                      Case{2, 9, 8, 3, {.window = 3, .stride = 2, .pads = {1, 0, 2, 2}}, 1, true},
                      Case{1, 4, 70, 2, {.window = 4, .stride = 3, .window_width = 64}},
                      Case{1, 16, 17, 2, {.window = 16, .stride = 5}}));  // the largest position in a window is 255

TEST(MaxPool, PadsAfterOnly) {
  // Extent 4, window 3, stride 2: the windows start at 0 and 2. With symmetric padding, they would start at -1 and 1.
  OpHarness harness(1);
  harness.finish(max_pool(harness.graph(), "pool", harness.input("x", {1, 4, 4, 1}), {.window = 3, .stride = 2}));
  std::vector<float> x(16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -static_cast<float>(i);  // a window's first value is its largest
  harness.set("x", x);
  const auto y = harness.forward();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector{0.0f, -2.0f, -8.0f, -10.0f}));
  const std::vector<float> dy = OpHarness::output_gradient(4);
  harness.backward();
  for (const auto& [input, output] : {std::pair{0, 0}, {2, 1}, {8, 2}, {10, 3}})
    EXPECT_EQ(harness.gradient("x")[input], dy[output]);
}

TEST(MaxPool, ANanInAWindowMakesItNan) {
  constexpr std::int64_t channels = 20;  // the channels are one vector and a remainder
  CpuDevice device(1);
  const auto expect_nan = [&](Arithmetic arithmetic, bool relu, std::size_t at, float nan) {
    OpHarness harness(1, device, arithmetic);
    const Value x = relu_if(relu, harness.graph(), harness.input("x", {1, 3, 3, channels}));
    harness.finish(max_pool(harness.graph(), "pool", x, {.window = 3, .stride = 3, .padding = Padding::valid}));
    for (std::size_t c = 0; c < channels; c += 2) harness.values("x")[at * channels + c] = nan;
    const auto y = harness.forward();
    for (std::size_t c = 0; c < channels; ++c) EXPECT_EQ(std::isnan(y[c]), c % 2 == 0) << at << ", " << c;
  };
  // The test uses NaNs of both signs, because processors also produce NaNs with the sign bit.
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t at = 0; at < 9; ++at) {
    for (const bool relu : {false, true}) {
      for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
        for (const float one : {nan, -nan}) expect_nan(arithmetic, relu, at, one);
      }
    }
  }
}

TEST(MaxPool, MinusInfinityIsAValue) {
  OpHarness harness(1);
  harness.finish(max_pool(harness.graph(), "pool", harness.input("x", {1, 2, 2, 1}), {.window = 2, .stride = 2}));
  harness.set("x", std::vector<float>(4, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(harness.forward()[0], -std::numeric_limits<float>::infinity());
}

TEST(MaxPool, KeepsItsOutputForTheReluOnly) {
  for (const bool relu : {false, true}) {
    OpHarness harness(2);
    const Value x = relu_if(relu, harness.graph(), harness.input("x", {2, 6, 6, 1}));
    const Value y = max_pool(harness.graph(), "pool", x, {.window = 2, .stride = 2});
    fuse_activations(harness.graph(), std::vector{y});
    const BackwardNeeds needs = harness.graph().nodes().back().definition->backward_needs();
    EXPECT_FALSE(needs.inputs);
    EXPECT_EQ(needs.outputs, relu);
  }
}

TEST(MaxPool, RejectsUnsupportedShapes) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 20, 20, 1});
  EXPECT_THROW(max_pool(harness.graph(), "a", x, {.window = 17, .stride = 2}), Error);
  EXPECT_THROW(max_pool(harness.graph(), "b", x, {.window = 3, .stride = 0}), Error);
  EXPECT_THROW(max_pool(harness.graph(), "d", x, {.window = 3, .pads = {0, 3, 0, 0}}), Error);
  EXPECT_THROW(max_pool(harness.graph(), "e", x, {.window = 3, .pads = {0, 1}}), Error);
  const Value flat = harness.input("flat", {2, 400});
  EXPECT_THROW(max_pool(harness.graph(), "c", flat, {.window = 3, .stride = 2}), Error);
}

}  // namespace
}  // namespace carillon::testing
