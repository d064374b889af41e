// Runs the CUDA kernels of lrn on the CPU, by loops over blocks and threads (`emulate`), and compares the results with
// the CPU implementation.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/lrn/lrn_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t pixels, channels;
  LrnParams params;
};

template <typename T>
struct Found {
  std::vector<T> y, dx;
};

template <typename T>
Found<T> emulate_lrn(const Case& c, const std::vector<T>& x, const std::vector<T>& dy, ThreadOrder order) {
  Found<T> found{filled<T>(x.size()), filled<T>(x.size())};
  with_lrn_form(c.params, c.channels,
                [&]<int n, bool three_quarters>(std::integral_constant<int, n>, std::bool_constant<three_quarters>) {
                  const LrnCut cut = lrn_cut(static_cast<std::int64_t>(x.size()), c.channels, c.params.depth_radius, n);
                  ASSERT_GT(cut.owned, 0);
                  const LrnBlock<T, n, three_quarters> block{cut, c.params.bias, c.params.alpha, c.params.beta};
                  emulate(LrnForward<T, n, three_quarters>{block, x.data(), found.y.data()}, order);
                  emulate(LrnBackward<T, n, three_quarters>{block, x.data(), dy.data(), found.dx.data()}, order);
                });
  return found;
}

/// Returns y and dx of the CPU implementation.
Found<float> cpu_lrn(const Case& c, const std::vector<float>& x) {
  OpHarness harness(c.pixels);
  harness.finish(lrn(harness.graph(), "norm", harness.input("x", {c.pixels, c.channels}), c.params));
  harness.set("x", x);
  const auto y = harness.forward();
  harness.backward();
  const auto dx = harness.gradient("x");
  return {{y.begin(), y.end()}, {dx.begin(), dx.end()}};
}

class LrnKernels : public ::testing::TestWithParam<Case> {
 protected:
  std::size_t size() const { return static_cast<std::size_t>(GetParam().pixels * GetParam().channels); }
  std::vector<float> x_ = random_values(size(), 1, -3.0f, 3.0f), dy_ = OpHarness::output_gradient(size());
};

TEST_P(LrnKernels, EqualTheCpuFormInFloat32) {
  const Found<float> expected = cpu_lrn(GetParam(), x_);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    const Found<float> found = emulate_lrn(GetParam(), x_, dy_, order);
    expect_near(found.y, expected.y, 1e-6);
    expect_near(found.dx, expected.dx, 2e-6);
  }
}

TEST_P(LrnKernels, RoundTheFloat32ResultInBf16) {
  const std::vector<Bf16> x = rounded<Bf16>(x_), dy = rounded<Bf16>(dy_);
  const Found<float> expected = emulate_lrn(GetParam(), floats(x), floats(dy), ThreadOrder::ascending);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    const Found<Bf16> found = emulate_lrn(GetParam(), x, dy, order);
    EXPECT_EQ(floats(found.y), floats(rounded<Bf16>(expected.y)));
    EXPECT_EQ(floats(found.dx), floats(rounded<Bf16>(expected.dx)));
  }
}

constexpr LrnParams strong{.depth_radius = 4, .bias = 1.0f, .alpha = 0.3f, .beta = 0.75f};
constexpr LrnParams wide{.depth_radius = 9, .bias = 0.5f, .alpha = 0.1f, .beta = 1.3f};

INSTANTIATE_TEST_SUITE_P(Sizes, LrnKernels,
                         ::testing::Values(Case{1, 1, strong}, Case{1, 4, strong}, Case{3, 8, strong},
                                           Case{6, 3, strong}, Case{144, 64, strong}, Case{17, 64, {}},
                                           Case{33, 100, strong}, Case{5, 33, strong}, Case{2, 1024, strong},
                                           Case{3, 1028, strong}, Case{2, 3000, strong}, Case{2, 1500, wide},
                                           Case{3, 1023, wide}, Case{130, 5, wide}, Case{7, 64, wide},
                                           Case{9, 20, {.depth_radius = 0}},
                                           Case{2, 2050, {.depth_radius = 127, .alpha = 0.01f, .beta = 0.5f}},
                                           Case{3, 64, {.depth_radius = 4, .alpha = 1.0f, .beta = 0.5f}}));

TEST(LrnKernels, NotANumberStaysInItsWindow) {
  for (const LrnParams& params : {LrnParams{}, LrnParams{.depth_radius = 4, .beta = 0.5f}}) {
    for (const std::int64_t channels : {16, 17}) {
      const Case c{2, channels, params};
      std::vector<float> x = random_values(static_cast<std::size_t>(2 * channels), 1), dy = x;
      x[static_cast<std::size_t>(channels) + 4] = std::numeric_limits<float>::quiet_NaN();
      const auto found = emulate_lrn(c, x, dy, ThreadOrder::ascending);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool inside = i >= static_cast<std::size_t>(channels) && i <= static_cast<std::size_t>(channels) + 8;
        EXPECT_EQ(std::isnan(found.y[i]), inside) << i;
      }
    }
  }
}

TEST(LrnKernels, KnowTheirLimit) {
  EXPECT_GT(lrn_cut(1 << 20, 1024, 1000, 1).owned, 0);
  EXPECT_GT(lrn_cut(2048 * 3, 2048, lrn_tile / 8 - 1, 1).owned, 0);
  EXPECT_EQ(lrn_cut(2048 * 3, 2048, lrn_tile / 8, 1).owned, 0);
}

}  // namespace
}  // namespace carillon::testing
