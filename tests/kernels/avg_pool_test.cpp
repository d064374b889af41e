#include "kernels/pool/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "carillon/core/error.h"
#include "kernels/pool/pool_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape shape;
  std::optional<AvgPoolParams> params;  ///< nullopt: tests global_avg_pool
  int threads = 1;

  AvgPoolGeometry geometry() const {
    if (!params) return {slide(shape[1], shape[1], 1, Padding::valid), slide(shape[2], shape[2], 1, Padding::valid)};
    const ImageWindows windows = params->windows(shape);
    return {windows.vertical, windows.horizontal, params->counts_padding};
  }
};

/// Computes y and dx in double by the definition, one window after the other.
struct Reference {
  std::vector<double> y, dx;

  Reference(const Case& c, std::span<const float> x, std::span<const float> dy) : dx(x.size()) {
    const AvgPoolGeometry g = c.geometry();
    for (std::int64_t n = 0; n < c.shape[0]; ++n) {
      for (std::int64_t p = 0; p < g.vertical.output; ++p) {
        for (std::int64_t q = 0; q < g.horizontal.output; ++q) {
          for (std::int64_t k = 0; k < c.shape[3]; ++k) take_window(c, g, n, p, q, k, x, dy);
        }
      }
    }
  }

 private:
  void take_window(const Case& c, const AvgPoolGeometry& g, std::int64_t n, std::int64_t p, std::int64_t q,
                   std::int64_t k, std::span<const float> x, std::span<const float> dy) {
    std::vector<std::int64_t> inside;
    for (std::int64_t i = 0; i < g.vertical.window; ++i) {
      for (std::int64_t j = 0; j < g.horizontal.window; ++j) {
        const std::int64_t h = p * g.vertical.stride + i - g.vertical.before;
        const std::int64_t w = q * g.horizontal.stride + j - g.horizontal.before;
        if (h < 0 || w < 0 || h >= c.shape[1] || w >= c.shape[2]) continue;
        inside.push_back(((n * c.shape[1] + h) * c.shape[2] + w) * c.shape[3] + k);
      }
    }
    const std::size_t area = static_cast<std::size_t>(g.vertical.window * g.horizontal.window);
    const double count = static_cast<double>(g.counts_padding ? area : inside.size());
    const double gradient = dy[y.size()];
    double sum = 0.0;
    for (const std::int64_t at : inside) sum += x[at];
    for (const std::int64_t at : inside) dx[at] += gradient / count;
    y.push_back(sum / count);
  }
};

class AvgPool : public ::testing::TestWithParam<Case> {
 protected:
  void build(OpHarness& harness) {
    const Value x = harness.input("x", GetParam().shape);
    harness.finish(GetParam().params ? avg_pool(harness.graph(), "pool", x, *GetParam().params)
                                     : global_avg_pool(harness.graph(), "pool", x));
  }

  template <typename T>
  void expect_kernels_as_the_definition(double tolerance) {
    const Case& c = GetParam();
    const std::vector<T> x = rounded<T>(random_values(static_cast<std::size_t>(c.shape.element_count()), 1));
    // dy has as many elements as x, but only the first y.size() elements are used.
    const std::vector<T> dy = rounded<T>(random_values(x.size(), 2));
    const Reference expected(c, floats(x), floats(dy));
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      std::vector<T> y = filled<T>(expected.y.size()), dx = filled<T>(x.size());
      with_pack_size<T>(c.shape[3], [&]<int n>(std::integral_constant<int, n>) {
        const PackedPool pool = packed_pool(c.geometry(), c.shape[3], n);
        const bool counts_padding = c.geometry().counts_padding;
        emulate(ForEachElement{AvgPoolForward<T, n>{pool, x.data(), y.data(), counts_padding}, std::ssize(y) / n},
                order);
        emulate(ForEachElement{AvgPoolBackward<T, n>{pool, dy.data(), dx.data(), counts_padding}, std::ssize(dx) / n},
                order);
      });
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(to_float(y[i]), expected.y[i], tolerance) << i;
      for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(to_float(dx[i]), expected.dx[i], tolerance) << i;
    }
  }
};

TEST_P(AvgPool, EqualsTheDefinitionForwardAndBackward) {
  OpHarness harness(GetParam().shape[0], GetParam().threads);
  build(harness);
  const auto y = harness.forward();
  harness.backward();
  const Reference expected(GetParam(), harness.values("x"), OpHarness::output_gradient(y.size()));
  ASSERT_EQ(y.size(), expected.y.size());
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected.y[i], 3e-7) << i;
  for (std::size_t i = 0; i < expected.dx.size(); ++i) ASSERT_NEAR(harness.gradient("x")[i], expected.dx[i], 3e-7) << i;
}

TEST_P(AvgPool, HasEqualBitsAtAnyNumberOfThreads) {
  const auto results_with = [&](int threads) {
    OpHarness harness(GetParam().shape[0], threads);
    build(harness);
    const auto y = harness.forward();
    std::vector<float> all(y.begin(), y.end());
    harness.backward();
    const auto dx = harness.gradient("x");
    all.insert(all.end(), dx.begin(), dx.end());
    return all;
  };
  EXPECT_TRUE(equal_bits(results_with(1), results_with(3)));
}

TEST_P(AvgPool, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().shape[0]);
  build(harness);
  harness.expect_gradients_match_differences(1e-2, 1e-3, 20);
}

TEST_P(AvgPool, KernelsEqualTheDefinition) {
  expect_kernels_as_the_definition<float>(3e-7);
  expect_kernels_as_the_definition<Bf16>(8e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Windows, AvgPool,
    ::testing::Values(
        Case{{1, 1, 1, 1}, {}}, Case{{3, 5, 4, 7}, {}}, Case{{9, 8, 8, 64}, {}, 2},
        Case{{2, 7, 6, 3}, AvgPoolParams{.window = 3, .stride = 2}},
        Case{{2, 8, 8, 16}, AvgPoolParams{.window = 2, .stride = 2, .padding = Padding::valid}},
        Case{{3, 9, 5, 8}, AvgPoolParams{.window = 3}, 2}, Case{{2, 7, 7, 5}, AvgPoolParams{.window = 2, .stride = 3}},
        Case{{40, 12, 12, 33}, AvgPoolParams{.window = 3, .stride = 2}, 2},
        Case{{2, 7, 6, 3}, AvgPoolParams{.window = 3, .counts_padding = true}},
        Case{{2, 7, 6, 16}, AvgPoolParams{.window = 3, .stride = 2, .counts_padding = true, .pads = {1, 0, 2, 1}}, 3},
        Case{{2, 8, 9, 4}, AvgPoolParams{.window = 3, .window_width = 1}},
        Case{{2, 8, 9, 4}, AvgPoolParams{.window = 1, .window_width = 7, .stride_width = 2}, 3},
        Case{{2, 8, 9, 5}, AvgPoolParams{.window = 3, .stride = 2, .pads = {0, 0, 1, 1}}}));

TEST(AvgPoolOp, DoesAsPyTorch) {
  OpHarness harness(2);
  harness.finish(avg_pool(harness.graph(), "pool", harness.input("x", {2, 7, 6, 3}), {.window = 3, .stride = 2}));
  harness.set("x", of_pytorch("avg_pool/x"));
  expect_as_pytorch(harness.forward(), "avg_pool/y", 3e-7);
  // A test above compares the op's gradients with Reference. This test compares the gradients of Reference with
  // PyTorch's gradients.
  const Case c{{2, 7, 6, 3}, AvgPoolParams{.window = 3, .stride = 2}};
  const std::vector<double> dx = Reference(c, of_pytorch("avg_pool/x"), of_pytorch("avg_pool/dy")).dx;
  expect_as_pytorch(std::vector<float>(dx.begin(), dx.end()), "avg_pool/dx", 3e-7);

  OpHarness whole(2);
  whole.finish(global_avg_pool(whole.graph(), "pool", whole.input("x", {2, 7, 6, 3})));
  whole.set("x", of_pytorch("avg_pool/x"));
  expect_as_pytorch(whole.forward(), "avg_pool/global", 3e-7);
}

TEST(AvgPoolOp, GivesShapesAndRefusesOthers) {
  Graph graph(2);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {2, 7, 6, 3});
  EXPECT_EQ(graph.shape(global_avg_pool(graph, "a", x)), (Shape{2, 3}));
  EXPECT_EQ(graph.shape(avg_pool(graph, "b", x, {.window = 3, .stride = 2})), (Shape{2, 4, 3, 3}));
  EXPECT_THROW(avg_pool(graph, "c", x, {.window = 8, .padding = Padding::valid}), Error);
  EXPECT_THROW(avg_pool(graph, "d", x, {.window = 0}), Error);
  EXPECT_THROW(avg_pool(graph, "f", x, {.window = 2, .pads = {0, 0, 2, 0}}), Error);
  EXPECT_THROW(avg_pool(graph, "g", x, {.window = 2, .pads = {0, 0, 0}}), Error);
  EXPECT_THROW(global_avg_pool(graph, "e", Value{1}), Error);
}

}  // namespace
}  // namespace carillon::testing
