#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::vector<std::int64_t> leading;
  std::int64_t m, k, n;
};

class Matmul : public ::testing::TestWithParam<std::tuple<Case, bool, bool>> {
 protected:
  const Case& extents() const { return std::get<0>(GetParam()); }
  bool transpose_a() const { return std::get<1>(GetParam()); }
  bool transpose_b() const { return std::get<2>(GetParam()); }

  Shape shape(std::int64_t rows, std::int64_t columns, bool transposed) const {
    std::vector<std::int64_t> all = extents().leading;
    all.push_back(transposed ? columns : rows);
    all.push_back(transposed ? rows : columns);
    return Shape(all);
  }
  void build(OpHarness& harness) {
    const Value a = harness.input("a", shape(extents().m, extents().k, transpose_a()));
    const Value b = harness.input("b", shape(extents().k, extents().n, transpose_b()));
    harness.finish(matmul(harness.graph(), "op", a, b, {.transpose_a = transpose_a(), .transpose_b = transpose_b()}));
  }
  /// For every product of an element of a and an element of b that is a term of an element of y, calls body(position in
  /// a, position in b, position in y).
  template <typename Body>
  void for_products(const Body& body) const {
    const auto& [leading, m, k, n] = extents();
    std::int64_t count = 1;
    for (const std::int64_t extent : leading) count *= extent;
    for (std::int64_t p = 0; p < count; ++p) {
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t i = 0; i < k; ++i) {
          for (std::int64_t c = 0; c < n; ++c) {
            const std::int64_t at_a = transpose_a() ? i * m + r : r * k + i;
            const std::int64_t at_b = transpose_b() ? c * k + i : i * n + c;
            body(static_cast<std::size_t>(p * m * k + at_a), static_cast<std::size_t>(p * k * n + at_b),
                 static_cast<std::size_t>((p * m + r) * n + c));
          }
        }
      }
    }
  }
};

void expect_near(std::span<const float> found, const std::vector<double>& wanted, const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 2e-5) << what << " " << i;
}

TEST_P(Matmul, EqualsTheDefinitionBothWays) {
  for (const int threads : {1, 3}) {
    OpHarness harness(extents().leading[0], threads);
    build(harness);
    const auto a = harness.values("a"), b = harness.values("b");
    const auto y = harness.forward();
    const std::vector<float> dy = OpHarness::output_gradient(y.size());
    std::vector<double> wanted(y.size()), da(a.size()), db(b.size());
    for_products([&](std::size_t at_a, std::size_t at_b, std::size_t at_y) {
      wanted[at_y] += static_cast<double>(a[at_a]) * b[at_b];
      da[at_a] += static_cast<double>(dy[at_y]) * b[at_b];
      db[at_b] += static_cast<double>(dy[at_y]) * a[at_a];
    });
    expect_near(y, wanted, "y");
    harness.backward();
    expect_near(harness.gradient("a"), da, "da");
    expect_near(harness.gradient("b"), db, "db");
  }
}

TEST_P(Matmul, GradientsMatchFiniteDifferences) {
  OpHarness harness(extents().leading[0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Matmul,
                         ::testing::Combine(::testing::Values(Case{{1}, 1, 1, 1}, Case{{3}, 2, 5, 3},
                                                              Case{{2, 3}, 7, 4, 17}, Case{{2, 2, 3}, 1, 8, 5},
                                                              Case{{8, 3}, 50, 33, 64}),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(MatmulOp, OfTheSameValueTwiceSumsTheGradients) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3, 3});
  harness.finish(matmul(harness.graph(), "op", x, x, {.transpose_b = true}));
  harness.expect_gradients_match_differences(1e-2, 2e-3);
}

TEST(MatmulOp, RefusesOtherShapes) {
  OpHarness harness(2);
  const Value a = harness.input("a", {2, 3, 4}), b = harness.input("b", {2, 4, 5}),
              images = harness.input("images", {2, 7, 3, 4}), others = harness.input("others", {2, 6, 4, 5}),
              rows = harness.input("rows", {2, 4});
  const auto refuses = [&](Value left, Value right, const MatmulParams& params) {
    EXPECT_THROW(matmul(harness.graph(), "op", left, right, params), Error);
  };
  refuses(b, a, {});
  refuses(a, b, {.transpose_a = true});
  refuses(a, b, {.transpose_b = true});
  refuses(images, b, {});
  refuses(images, others, {});
  refuses(rows, rows, {});
}

}  // namespace
}  // namespace carillon::testing
