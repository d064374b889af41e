// Runs the CUDA kernels of attention on the CPU, by loops over blocks and threads (`emulate`), and compares the results
// with the definition, computed in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/attention/attention_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr float scale = 0.3f;

/// Sizes of the attention scores of one head. The array Found::kept has the shape [samples, 2 heads, tokens]; the
/// kernels run for head 1 only.
struct Case {
  std::int64_t samples, tokens, row_stride;

  std::size_t elements() const { return static_cast<std::size_t>(samples * tokens * row_stride); }
  bool is_padding(std::size_t at) const { return static_cast<std::int64_t>(at) % row_stride >= tokens; }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.samples << " samples, " << c.tokens << " tokens"; }

template <typename T>
struct Found {
  std::vector<T> weights, weights_again, gradients;
  std::vector<AttentionRow> kept;
};

/// Runs the forward kernel and the backward kernel on the same scores.
template <typename T>
Found<T> emulate_attention(const Case& c, const std::vector<float>& scores, const std::vector<float>& weight_gradients,
                           ThreadOrder order = ThreadOrder::ascending) {
  constexpr AttentionRow untouched{-7.0f, -7.0f};
  Found<T> found{filled<T>(c.elements()), filled<T>(c.elements()), filled<T>(c.elements()),
                 std::vector<AttentionRow>(static_cast<std::size_t>(c.samples * 2 * c.tokens), untouched)};
  std::vector<float> forward = scores, backward = scores;
  AttentionRows rows{.kept = found.kept.data() + c.tokens,
                     .kept_stride = 2 * c.tokens,
                     .samples = c.samples,
                     .tokens = c.tokens,
                     .row_stride = c.row_stride,
                     .scale = scale};
  rows.scores = forward.data();
  emulate(AttentionWeights<T>{rows, found.weights.data()}, order);
  rows.scores = backward.data();
  emulate(AttentionScoreGradients<T>{rows, weight_gradients.data(), found.weights_again.data(), found.gradients.data()},
          order);
  return found;
}

struct Expected {
  std::vector<float> weights, gradients;
};

Expected definition(const Case& c, const std::vector<float>& scores, const std::vector<float>& weight_gradients) {
  Expected expected{filled<float>(scores.size()), filled<float>(scores.size())};
  for (std::size_t row = 0; row < scores.size(); row += static_cast<std::size_t>(c.row_stride)) {
    const auto weight = [&](std::size_t at) { return std::exp(static_cast<double>(scale) * scores[at]); };
    const std::size_t end = row + static_cast<std::size_t>(c.tokens);
    double sum = 0.0, d = 0.0;
    for (std::size_t at = row; at < end; ++at) sum += weight(at);
    for (std::size_t at = row; at < end; ++at) d += weight(at) / sum * weight_gradients[at];
    for (std::size_t at = row; at < end; ++at) {
      expected.weights[at] = static_cast<float>(weight(at) / sum);
      expected.gradients[at] = static_cast<float>(scale * weight(at) / sum * (weight_gradients[at] - d));
    }
  }
  return expected;
}

/// Compares the elements of `found` that are not padding with `expected`. The padding must still contain the NaNs that
/// `filled` wrote.
template <typename T>
void expect_rows(const Case& c, const std::vector<T>& found, const std::vector<float>& expected, double tolerance) {
  const std::vector<float> values = floats(found), untouched = floats(filled<T>(found.size()));
  std::vector<float> of_rows, expected_of_rows;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (c.is_padding(at)) {
      EXPECT_TRUE(equal_bits({values[at]}, {untouched[at]})) << "padding at " << at;
    } else {
      of_rows.push_back(values[at]);
      expected_of_rows.push_back(expected[at]);
    }
  }
  expect_near(of_rows, expected_of_rows, tolerance);
}

class AttentionKernels : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T>
  void expect_the_definition(double tolerance) {
    const Case& c = GetParam();
    const Expected expected = definition(c, scores_, weight_gradients_);
    const Found<T> ascending = emulate_attention<T>(c, scores_, weight_gradients_, ThreadOrder::ascending);
    const Found<T> descending = emulate_attention<T>(c, scores_, weight_gradients_, ThreadOrder::descending);
    for (const Found<T>& found : {ascending, descending}) {
      expect_rows(c, found.weights, expected.weights, tolerance);
      expect_rows(c, found.weights_again, expected.weights, tolerance);
      expect_rows(c, found.gradients, expected.gradients, tolerance);
    }
    EXPECT_TRUE(equal_bits(floats(ascending.gradients), floats(descending.gradients)));
  }

  std::vector<float> scores_ = random_values(GetParam().elements(), 1, -9.0f, 9.0f);
  std::vector<float> weight_gradients_ = random_values(GetParam().elements(), 2);
};

TEST_P(AttentionKernels, EqualTheDefinitionInFloat32) { expect_the_definition<float>(3e-6); }
TEST_P(AttentionKernels, RoundOnceInBf16) { expect_the_definition<Bf16>(0x1.01p-8); }

TEST_P(AttentionKernels, KeepTheRowsOfTheirHeadOnly) {
  const Case& c = GetParam();
  const Found<float> found = emulate_attention<float>(c, scores_, weight_gradients_);
  for (std::int64_t row = 0; row < c.samples * 2 * c.tokens; ++row) {
    const bool is_kept = row / c.tokens % 2 == 1;
    EXPECT_EQ(found.kept[static_cast<std::size_t>(row)].inverse_sum != -7.0f, is_kept) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionKernels,
                         ::testing::Values(Case{1, 1, 8}, Case{3, 5, 8}, Case{2, 31, 32}, Case{1, 32, 32},
                                           Case{2, 33, 40}, Case{1, 197, 200}));

TEST(AttentionKernels, AnEvaluationKeepsNoRows) {
  const Case c{2, 9, 16};
  const std::vector<float> scores = random_values(c.elements(), 1);
  std::vector<float> evaluated = scores, weights = filled<float>(c.elements());
  emulate(AttentionWeights<float>{
      {.scores = evaluated.data(), .samples = 2, .tokens = 9, .row_stride = 16, .scale = scale}, weights.data()});
  EXPECT_TRUE(equal_bits(weights, emulate_attention<float>(c, scores, scores).weights));
}

TEST(AttentionKernels, LargeScoresDoNotOverflow) {
  const Case c{1, 40, 40};
  const std::vector<float> scores = random_values(c.elements(), 1, -1e4f, 1e4f), gradients(c.elements(), 1.0f);
  const Found<float> found = emulate_attention<float>(c, scores, gradients);
  for (std::size_t row = 0; row < 40; ++row) {
    const auto first = found.weights.begin() + static_cast<std::ptrdiff_t>(row * 40);
    EXPECT_NEAR(std::accumulate(first, first + 40, 0.0), 1.0, 1e-5) << row;
  }
}

TEST(AttentionKernels, ABadScoreReachesItsWholeRow) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Case c{2, 20, 24};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    std::vector<float> scores = random_values(c.elements(), 1);
    scores[22 * 24 + 5] = bad;
    const Found<float> found = emulate_attention<float>(c, scores, random_values(c.elements(), 2));
    for (std::size_t at = 0; at < c.elements(); ++at) {
      if (c.is_padding(at)) continue;
      EXPECT_EQ(std::isfinite(found.weights[at]), at / 24 != 22) << bad << ", " << at;
      EXPECT_EQ(std::isfinite(found.gradients[at]), at / 24 != 22) << bad << ", " << at;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
