// The GPU's kernels of attention, run by loops, against the CPU side.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/attention/attention_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, tokens, heads, head_size;

  Shape input() const { return {batch, tokens, 3 * heads * head_size}; }
  AttentionShape shape() const { return {{batch, tokens, heads * head_size}, {.heads = heads}}; }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.batch << " samples, " << c.tokens << " tokens, " << c.heads << " heads of " << c.head_size;
}

template <typename T>
struct Found {
  std::vector<T> y, dx;
};

/// fixed_size: of the kernels.
template <int fixed_size, typename T>
Found<T> emulate_attention(const Case& c, const std::vector<T>& x, const std::vector<T>& dy, ThreadOrder order) {
  Found<T> found{filled<T>(dy.size()), filled<T>(x.size())};
  const auto row_count = static_cast<std::size_t>(c.batch * c.heads * c.tokens);
  std::vector<AttentionRow> rows(row_count);
  std::vector<float> row_terms = filled<float>(row_count);
  const AttentionArrays<T> arrays{.qkv = x.data(),
                                  .y = found.y.data(),
                                  .dy = dy.data(),
                                  .dqkv = found.dx.data(),
                                  .rows = rows.data(),
                                  .row_terms = row_terms.data()};
  emulate(AttentionForward<T, fixed_size>(c.shape(), arrays), order);
  emulate(AttentionQueryGradient<T, fixed_size>(c.shape(), arrays), order);
  emulate(AttentionKeyGradient<T, fixed_size>(c.shape(), arrays), order);
  emulate(AttentionValueGradient<T, fixed_size>(c.shape(), arrays), order);
  return found;
}

template <typename T>
Found<T> emulate_attention(const Case& c, const std::vector<T>& x, const std::vector<T>& dy,
                           ThreadOrder order = ThreadOrder::ascending) {
  Found<T> found;
  with_attention_size(c.head_size, [&]<int fixed_size>(std::integral_constant<int, fixed_size>) {
    found = emulate_attention<fixed_size>(c, x, dy, order);
  });
  return found;
}

Found<float> cpu_attention(const Case& c, const std::vector<float>& x) {
  OpHarness harness(c.batch);
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  harness.set("x", x);
  const auto y = harness.forward();
  const std::vector<float> output(y.begin(), y.end());
  harness.backward();
  const auto dx = harness.gradient("x");
  return {output, {dx.begin(), dx.end()}};
}

class AttentionKernels : public ::testing::TestWithParam<Case> {
 protected:
  std::size_t size() const { return static_cast<std::size_t>(GetParam().input().element_count()); }
  std::vector<float> x_ = random_values(size(), 1, -2.0f, 2.0f), dy_ = OpHarness::output_gradient(size() / 3);
};

TEST_P(AttentionKernels, EqualTheCpuSideInFloat32) {
  const Found<float> expected = cpu_attention(GetParam(), x_);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    const Found<float> found = emulate_attention(GetParam(), x_, dy_, order);
    expect_near(found.y, expected.y, 2e-6);
    expect_near(found.dx, expected.dx, 5e-6);
  }
}

TEST_P(AttentionKernels, RoundOnceInBf16) {
  const std::vector<Bf16> x = rounded<Bf16>(x_), dy = rounded<Bf16>(dy_);
  const Found<float> expected = emulate_attention(GetParam(), floats(x), floats(dy));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    const Found<Bf16> found = emulate_attention(GetParam(), x, dy, order);
    expect_near(floats(found.y), expected.y, 0x1.01p-8);
    expect_near(floats(found.dx), expected.dx, 1e-2);  // d is computed from the rounded y
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionKernels,
                         ::testing::Values(Case{1, 1, 1, 1}, Case{2, 5, 3, 4}, Case{3, 4, 1, 7}, Case{1, 31, 2, 32},
                                           Case{2, 32, 1, 64}, Case{2, 33, 2, 64}, Case{1, 70, 2, 5},
                                           Case{1, 65, 1, 80}, Case{1, 6, 1, 256}));

TEST(AttentionKernels, OfAFixedSizeEqualThoseOfAnySize) {
  const Case c{2, 37, 2, 64};
  const auto count = static_cast<std::size_t>(c.input().element_count());
  const std::vector<float> x = random_values(count, 1), dy = random_values(count / 3, 2);
  const Found<float> fixed = emulate_attention<64>(c, x, dy, ThreadOrder::ascending);
  const Found<float> any = emulate_attention<0>(c, x, dy, ThreadOrder::ascending);
  expect_near(fixed.y, any.y, 1e-6);
  expect_near(fixed.dx, any.dx, 2e-6);
}

TEST(AttentionKernels, AnEvaluationKeepsNoRows) {
  const Case c{1, 9, 2, 32};
  const auto count = static_cast<std::size_t>(c.input().element_count());
  const std::vector<float> x = random_values(count, 1);
  std::vector<float> y(count / 3);
  emulate(AttentionForward<float, 32>(c.shape(), {.qkv = x.data(), .y = y.data()}));
  EXPECT_EQ(y, emulate_attention(c, x, y).y);
}

TEST(AttentionKernels, LargeScoresDoNotOverflow) {
  const Case c{1, 40, 1, 32};
  const auto count = static_cast<std::size_t>(c.input().element_count());
  const std::vector<float> x = random_values(count, 1, -30.0f, 30.0f);
  const Found<float> found = emulate_attention(c, x, OpHarness::output_gradient(count / 3));
  expect_near(found.y, cpu_attention(c, x).y, 1e-4);
}

TEST(AttentionKernels, ABadValueReachesTheRowsThatReadIt) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Case c{2, 20, 1, 32};
  const auto count = static_cast<std::size_t>(c.input().element_count());
  for (const float bad : {nan, infinity, -infinity}) {
    for (const std::size_t part : {0, 1, 2}) {
      std::vector<float> x = random_values(count, 1, 0.1f, 1.0f);
      x[(22 * 3 + part) * 32 + 5] = bad;  // token 2 of sample 1
      const Found<float> found = emulate_attention(c, x, OpHarness::output_gradient(count / 3));
      for (std::size_t row = 0; row < 40; ++row) {
        const bool reads_it = row == 22 || (part > 0 && row >= 20);
        EXPECT_EQ(std::isfinite(found.y[row * 32 + 5]), !reads_it) << bad << ", part " << part << ", row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace carillon::testing
