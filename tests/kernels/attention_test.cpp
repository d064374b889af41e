#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "kernels/attention/attention_products.h"
#include "src/core/bf16.h"
#include "src/graph/batch_tiling.h"
#include "tests/support/float_arrays.h"
#include "tests/support/isa_name.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, tokens, heads, head_size;
  int threads = 1;
  float range = 1.5f;  ///< all inputs are between -range and range

  std::int64_t width() const { return heads * head_size; }
  Shape input() const { return {batch, tokens, 3 * width()}; }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.batch << " samples, " << c.tokens << " tokens, " << c.heads << " heads of " << c.head_size << ", "
       << c.threads << " threads, range " << c.range;
}

/// Computes y and the gradient of qkv (the op's input) in double, by the definition.
class Reference {
 public:
  std::vector<double> y, dqkv;

  Reference(const Case& c, std::span<const float> qkv, std::span<const float> dy)
      : y(dy.size()), dqkv(qkv.size()), case_(c), qkv_(qkv), dy_(dy) {
    for (std::int64_t head = 0; head < c.batch * c.heads; ++head) {
      for (std::int64_t i = 0; i < c.tokens; ++i) add_query(head / c.heads, head % c.heads, i);
    }
  }

 private:
  enum Part { query, key, value };

  std::size_t at(std::int64_t sample, std::int64_t token, Part part, std::int64_t head, std::int64_t c) const {
    const std::int64_t row = (sample * case_.tokens + token) * 3 + part;
    return static_cast<std::size_t>((row * case_.heads + head) * case_.head_size + c);
  }
  std::size_t output_at(std::int64_t sample, std::int64_t token, std::int64_t head, std::int64_t c) const {
    return static_cast<std::size_t>(((sample * case_.tokens + token) * case_.heads + head) * case_.head_size + c);
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(case_.head_size)); }

  std::vector<double> weights(std::int64_t sample, std::int64_t head, std::int64_t i) const {
    std::vector<double> p(static_cast<std::size_t>(case_.tokens));
    for (std::size_t j = 0; j < p.size(); ++j) {
      for (std::int64_t c = 0; c < case_.head_size; ++c) {
        p[j] += static_cast<double>(qkv_[at(sample, i, query, head, c)]) *
                qkv_[at(sample, static_cast<std::int64_t>(j), key, head, c)];
      }
    }
    const double largest = *std::ranges::max_element(p);
    double sum = 0.0;
    for (double& score : p) sum += score = std::exp((score - largest) * scale());
    for (double& share : p) share /= sum;
    return p;
  }

  void add_query(std::int64_t sample, std::int64_t head, std::int64_t i) {
    const std::vector<double> p = weights(sample, head, i);
    std::vector<double> dp(p.size());
    double row = 0.0;
    for (std::size_t n = 0; n < p.size(); ++n) {
      const auto j = static_cast<std::int64_t>(n);
      for (std::int64_t c = 0; c < case_.head_size; ++c) {
        const std::size_t out = output_at(sample, i, head, c), v = at(sample, j, value, head, c);
        y[out] += p[n] * qkv_[v];
        dqkv[v] += p[n] * dy_[out];
        dp[n] += static_cast<double>(dy_[out]) * qkv_[v];
      }
      row += p[n] * dp[n];
    }
    for (std::size_t n = 0; n < p.size(); ++n) {
      const double ds = p[n] * (dp[n] - row) * scale();
      for (std::int64_t c = 0; c < case_.head_size; ++c) {
        const std::size_t q = at(sample, i, query, head, c), k = at(sample, static_cast<std::int64_t>(n), key, head, c);
        dqkv[q] += ds * qkv_[k];
        dqkv[k] += ds * qkv_[q];
      }
    }
  }

  Case case_;
  std::span<const float> qkv_, dy_;
};

struct Results {
  std::vector<float> y, dx;
};

/// Returns the results of the op on `device`. The inputs depend only on the case.
Results results(const Case& c, Device& device, Arithmetic arithmetic = Arithmetic::fp32) {
  OpHarness harness(c.batch, device, arithmetic);
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  harness.set("x", random_values(static_cast<std::size_t>(c.input().element_count()), 3, -c.range, c.range));
  const auto y = harness.forward();
  Results found{{y.begin(), y.end()}, {}};
  harness.backward();
  const auto dx = harness.gradient("x");
  found.dx.assign(dx.begin(), dx.end());
  return found;
}

void expect_definition(const Case& c, Device& device) {
  const Results found = results(c, device);
  const std::vector<float> x = random_values(static_cast<std::size_t>(c.input().element_count()), 3, -c.range, c.range);
  const Reference expected(c, x, OpHarness::output_gradient(found.y.size()));
  EXPECT_LT(relative_error(found.y, expected.y), 1e-6);
  EXPECT_LT(relative_error(found.dx, expected.dqkv), c.range > 2.0f ? 1e-5 : 2e-6);
}

class Attention : public ::testing::TestWithParam<Case> {};

TEST_P(Attention, EqualsTheDefinitionForwardAndBackward) {
  CpuDevice device(GetParam().threads);
  expect_definition(GetParam(), device);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Attention,
                         ::testing::Values(Case{1, 1, 1, 1}, Case{2, 1, 3, 5}, Case{2, 5, 3, 4, 2}, Case{3, 2, 1, 17},
                                           Case{2, 16, 2, 16}, Case{1, 33, 2, 7, 3}, Case{2, 65, 3, 64, 2},
                                           Case{1, 96, 2, 32}, Case{1, 97, 2, 33}, Case{1, 197, 2, 64, 2},
                                           Case{1, 257, 1, 80}, Case{1, 300, 1, 3}, Case{1, 9, 1, 300}));
INSTANTIATE_TEST_SUITE_P(LargeScores, Attention, ::testing::Values(Case{2, 19, 2, 16, 1, 12.0f}));

class AttentionGradients : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionGradients, MatchFiniteDifferences) {
  const Case c = GetParam();
  OpHarness harness(c.batch, c.threads);
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  harness.expect_gradients_match_differences(1e-2, 3e-3);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionGradients,
                         ::testing::Values(Case{2, 5, 3, 4}, Case{2, 1, 2, 3}, Case{1, 35, 2, 8, 2}));

class IsaAttention : public ::testing::TestWithParam<Isa> {};

TEST_P(IsaAttention, EqualsTheDefinitionForwardAndBackward) {
  CpuDevice device(1, {.isa = GetParam()});
  for (const Case& c : {Case{1, 5, 2, 3}, Case{1, 39, 2, 20}, Case{1, 300, 1, 9}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    expect_definition(c, device);
  }
}

/// Returns the instruction sets with which the op's results have the same bits as with AMX. avx512_bf16 is omitted: it
/// adds in another order.
std::vector<Isa> isas_with_amx_bits() {
  std::vector<Isa> isas = available_isas();
  std::erase(isas, Isa::avx512_bf16);
  return isas;
}

class EmulatedAttention : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, EmulatedAttention, ::testing::ValuesIn(isas_with_amx_bits()),
                         [](const auto& test) { return isa_name(test.param); });

TEST_P(EmulatedAttention, HasEqualBitsInBf16) {
  const Case c{2, 99, 2, 40};
  CpuDevice plain(1, {.isa = Isa::plain}), device(1, {.isa = GetParam()});
  const Results expected = results(c, plain, Arithmetic::bf16), found = results(c, device, Arithmetic::bf16);
  EXPECT_TRUE(equal_bits(found.y, expected.y));
  EXPECT_TRUE(equal_bits(found.dx, expected.dx));
}

TEST_P(IsaAttention, TransposesMatricesOfAnySize) {
  for (std::int64_t rows = 1; rows < 10; ++rows) {
    for (std::int64_t columns = 1; columns < 10; ++columns) {
      const std::vector<float> from = random_values(static_cast<std::size_t>(rows * 16), 1);
      std::vector<float> to = filled<float>(static_cast<std::size_t>(columns * 16));
      attention_products(GetParam()).transpose(from.data(), 16, rows, columns, to.data(), 16);
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < 16; ++r) {
          const float found = to[static_cast<std::size_t>(c * 16 + r)];
          const bool right = r < rows ? found == from[static_cast<std::size_t>(r * 16 + c)] : std::isnan(found);
          EXPECT_TRUE(right) << rows << " x " << columns << " at " << r << ", " << c;
        }
      }
    }
  }
}

/// The op rounds the attention weights and the gradient of the scores to bf16 before it multiplies them. If the op
/// rounded only the results, the error would be 0.0016.
TEST_P(IsaAttention, IsNearTheDefinitionInBf16) {
  CpuDevice device(1, {.isa = GetParam()});
  for (const Case& c : {Case{1, 1, 1, 1}, Case{2, 5, 2, 3}, Case{1, 16, 1, 32}, Case{1, 33, 2, 40}, Case{1, 96, 1, 64},
                        Case{1, 97, 1, 64}, Case{2, 129, 2, 17}, Case{1, 197, 1, 64}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const Results found = results(c, device, Arithmetic::bf16);
    std::vector<float> x = random_values(static_cast<std::size_t>(c.input().element_count()), 3, -c.range, c.range);
    std::vector<float> dy = OpHarness::output_gradient(found.y.size());
    for (std::vector<float>* const values : {&x, &dy}) {
      for (float& value : *values) value = to_float(to_bf16(value));
    }
    const Reference expected(c, x, dy);
    EXPECT_LT(relative_error(found.y, expected.y), 0.004);
    EXPECT_LT(relative_error(found.dx, expected.dqkv), 0.006);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, IsaAttention, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return isa_name(test.param); });

TEST(AttentionOp, DoesAsPyTorch) {
  const Case c{2, 5, 3, 4};
  OpHarness harness(c.batch);
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  const std::vector<float> x = of_pytorch("attention/qkv");
  harness.set("x", x);
  expect_as_pytorch(harness.forward(), "attention/y", 5e-7);
  const Reference of_definition(c, x, of_pytorch("attention/dy"));  // the tests above compare the reference with the op
  expect_as_pytorch(std::vector<float>(of_definition.dqkv.begin(), of_definition.dqkv.end()), "attention/dqkv", 5e-7);
}

TEST(AttentionOp, HasEqualBitsAtAnyNumberOfThreads) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    const Case c{2, 100, 1, 24};
    CpuDevice one(1);
    const Results expected = results(c, one, arithmetic);
    for (const int threads : {2, 3, 4}) {
      CpuDevice several(threads);
      const Results found = results(c, several, arithmetic);
      EXPECT_TRUE(equal_bits(found.y, expected.y)) << threads;
      EXPECT_TRUE(equal_bits(found.dx, expected.dx)) << threads;
    }
  }
}

TEST(AttentionOp, ASampleDoesNotDependOnTheOthers) {
  const Case all{3, 21, 2, 10}, alone{1, 21, 2, 10};
  CpuDevice device(1);
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {  // sample 0 is the same in both batches
    const Results expected = results(alone, device, arithmetic), found = results(all, device, arithmetic);
    EXPECT_TRUE(std::equal(expected.y.begin(), expected.y.end(), found.y.begin()));
    EXPECT_TRUE(std::equal(expected.dx.begin(), expected.dx.end(), found.dx.begin()));
  }
}

TEST(AttentionOp, HasEqualBitsInTilesOfTheBatch) {
  const Case c{29, 50, 3, 64};
  std::vector<float> y, dx;
  for (const bool is_tiled : {false, true}) {
    OpHarness harness(c.batch, 2);
    Graph& graph = harness.graph();
    Value x = gelu(graph, "gelu", harness.input("x", c.input()));
    x = gelu(graph, "next", attention(graph, "op", x, {.heads = c.heads}));
    if (!is_tiled) {
      std::vector<Graph::Node> nodes = graph.nodes();
      for (Graph::Node& node : nodes) node.traits.samples_are_independent = false;
      graph.replace_nodes(std::move(nodes));
    }
    harness.finish(x);
    EXPECT_EQ(plan_tiling(graph, 2)[1].tiles > 1, is_tiled);
    const std::vector<float> output(harness.forward().begin(), harness.forward().end());
    harness.backward();
    const std::vector<float> gradient(harness.gradient("x").begin(), harness.gradient("x").end());
    if (!is_tiled) y = output;
    if (!is_tiled) dx = gradient;
    EXPECT_TRUE(equal_bits(output, y));
    EXPECT_TRUE(equal_bits(gradient, dx));
  }
}

/// Element i states whether row i (values 8 i to 8 i + 7) contains a NaN or an infinity.
std::vector<bool> bad_rows(std::span<const float> values) {
  std::vector<bool> found(values.size() / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) found[i / 8] = true;
  }
  return found;
}

struct BadRows {
  std::vector<bool> y, dx;
};

/// Sets element 5 of the query (part 0), key (part 1) or value (part 2) of token 2 in sample 1 to `bad`. Returns which
/// rows of y and of dx contain a NaN or an infinity after this change. All queries have the sign of `query_sign`.
BadRows rows_with_nan(float bad, std::int64_t part, float query_sign, Arithmetic arithmetic) {
  const Case c{2, 20, 1, 8};
  CpuDevice device(1);
  OpHarness harness(c.batch, device, arithmetic);
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  const std::span<float> x = harness.values("x");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 8 % 3 == 0) x[i] = query_sign * std::abs(x[i]);
  }
  const auto at = static_cast<std::size_t>(((c.tokens + 2) * 3 + part) * 8 + 5);
  x[at] = bad;
  BadRows found{bad_rows(harness.forward()), {}};
  harness.backward();
  found.dx = bad_rows(harness.gradient("x"));
  return found;
}

TEST(AttentionOp, ABadValueReachesTheRowsThatReadIt) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, -nan, infinity, -infinity}) {
    for (const float query_sign : {1.0f, -1.0f}) {  // if the sign is -1, a key of +infinity has the score -infinity
      for (const std::int64_t part : {0, 1, 2}) {
        std::vector<bool> expected(40, false);
        std::fill(expected.begin() + 20, expected.end(), part > 0);
        expected[22] = true;
        for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
          const BadRows found = rows_with_nan(bad, part, query_sign, arithmetic);
          EXPECT_EQ(found.y, expected) << bad << ", part " << part;
          for (std::size_t row = 0; row < 60; ++row) EXPECT_FALSE(found.dx[row]) << "of the other sample";
          // dx has the rows q, k, v of each token. If the value (part 2) is bad, the gradients of all queries (rows 60,
          // 63, ...) must be bad. If the query or the key is bad, some attention weights are bad, so the gradients of
          // all values (rows 62, 65, ...) must be bad.
          for (std::size_t row = part == 2 ? 60 : 62; row < 120; row += 3) {
            EXPECT_TRUE(found.dx[row]) << bad << ", part " << part << ", row " << row;
          }
        }
      }
    }
  }
}

class AttentionArithmetic : public ::testing::TestWithParam<Arithmetic> {};
INSTANTIATE_TEST_SUITE_P(Formats, AttentionArithmetic, ::testing::Values(Arithmetic::fp32, Arithmetic::bf16),
                         [](const auto& test) { return test.param == Arithmetic::bf16 ? "bf16" : "fp32"; });

TEST_P(AttentionArithmetic, DoesNotDependOnWhatTheWorkspaceHolds) {
  const Case c{1, 37, 1, 24};
  CpuDevice device(1);
  const Results expected = results(c, device, GetParam());
  constexpr std::size_t workspace_floats = 1 << 16;  // more floats than the op uses
  device.reserve_workspace(workspace_floats * sizeof(float));
  OpHarness harness(c.batch, device, GetParam());
  harness.finish(attention(harness.graph(), "op", harness.input("x", c.input()), {.heads = c.heads}));
  harness.set("x", random_values(static_cast<std::size_t>(c.input().element_count()), 3, -c.range, c.range));
  for (const float left_over : {1e3f, -1e3f, std::numeric_limits<float>::quiet_NaN()}) {
    std::fill_n(static_cast<float*>(device.workspace()), workspace_floats, left_over);
    const auto y = harness.forward();
    EXPECT_TRUE(equal_bits({y.begin(), y.end()}, expected.y));
    std::fill_n(static_cast<float*>(device.workspace()), workspace_floats, left_over);
    harness.backward();
    const auto dx = harness.gradient("x");
    EXPECT_TRUE(equal_bits({dx.begin(), dx.end()}, expected.dx));
  }
}

TEST(AttentionOp, SkipsAGradientThatIsNotWanted) {
  const Case c{2, 5, 2, 3};
  std::vector<float> x = random_values(static_cast<std::size_t>(c.input().element_count()), 1);
  std::vector<float> y(x.size() / 3), dy = y;
  const Shape output{c.batch, c.tokens, c.width()};
  CpuDevice device(1);
  const auto op = make_attention_cpu({.heads = c.heads}, {.device = &device, .training = true},
                                     {.inputs = {{x.data(), c.input()}},
                                      .outputs = {{y.data(), output}},
                                      .input_gradients = {Tensor{}},
                                      .output_gradients = {{dy.data(), output}}});
  op->forward(device.stream());
  op->backward(device.stream());
}

TEST(AttentionOp, HasTheShapeOfAPart) {
  Graph graph(2);
  OpHarness harness(2);
  const Value y = attention(harness.graph(), "op", harness.input("x", {2, 5, 18}), {.heads = 3});
  EXPECT_EQ(harness.graph().shape(y), Shape({2, 5, 6}));
}

TEST(AttentionOp, RefusesOtherShapes) {
  const auto refused = [](const Shape& shape, std::int64_t heads) {
    OpHarness harness(2);
    const Value x = harness.input("x", shape);
    EXPECT_THROW(attention(harness.graph(), "op", x, {.heads = heads}), Error) << shape.text();
  };
  refused({2, 18}, 3);
  refused({2, 3, 5, 18}, 3);
  refused({2, 5, 17}, 1);
  refused({2, 5, 18}, 4);
  refused({2, 5, 18}, 0);
}

}  // namespace
}  // namespace carillon::testing
