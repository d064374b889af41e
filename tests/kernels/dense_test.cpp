#include "kernels/dense/dense.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/op_harness.h"
#include "tests/support/op_results.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch, in, out;
  bool relu;
  int threads;
  bool has_biases = true;
};

class Dense : public ::testing::TestWithParam<Case> {
 protected:
  Dense() : harness_(GetParam().batch, GetParam().threads) {
    const auto [batch, in, out, relu, threads, has_biases] = GetParam();
    DenseParams params{.units = out};
    if (!has_biases) params.biases.reset();
    const Value x = harness_.input("x", {batch, in});
    harness_.finish(relu_if(relu, harness_.graph(), dense(harness_.graph(), "layer", x, params)));
  }
  OpHarness harness_;
};

TEST_P(Dense, ForwardEqualsTheDefinition) {
  const auto [batch, in, out, relu, threads, has_biases] = GetParam();
  const auto y = harness_.forward();
  const auto x = harness_.values("x"), w = harness_.values("layer/weights");
  const auto b = has_biases ? harness_.values("layer/biases") : std::span<float>{};
  for (std::int64_t row = 0; row < batch; ++row) {
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = has_biases ? b[j] : 0.0;
      for (std::int64_t i = 0; i < in; ++i) sum += static_cast<double>(x[row * in + i]) * w[i * out + j];
      EXPECT_NEAR(y[row * out + j], relu ? std::max(sum, 0.0) : sum, 1e-4) << row << ", " << j;
    }
  }
}

TEST_P(Dense, GradientsMatchFiniteDifferences) { harness_.expect_gradients_match_differences(1e-3, 1e-2); }

INSTANTIATE_TEST_SUITE_P(Sizes, Dense,
                         ::testing::Values(Case{1, 1, 1, false, 1}, Case{1, 7, 3, true, 1}, Case{5, 17, 10, false, 2},
                                           Case{33, 65, 31, true, 2}, Case{100, 784, 500, false, 2},
                                           Case{5, 17, 10, false, 2, false}, Case{5, 7, 3, true, 1, false}));

/// dense with per_position equals dense without per_position on a matrix that has one row per sample and position.
TEST(Dense, PerPositionIsTheLayerOfOneSampleForEachPosition) {
  struct Layer {
    Shape shape;
    std::int64_t units;
    float input_density;  ///< with 0.01, the products skip zeros
  };
  for (const auto& [shape, units, density] :
       {Layer{{3, 5, 8}, 6, 1.0f}, Layer{{2, 3, 4, 8}, 6, 1.0f}, Layer{{2, 3, 784}, 500, 0.01f}}) {
    const std::int64_t in = shape.extents().back(), rows = shape.element_count() / in;
    OpHarness positions(shape[0], 2);
    positions.finish(dense(positions.graph(), "layer", positions.input("x", shape),
                           {.units = units, .input_density = density, .per_position = true}));
    OpHarness samples(rows, 2);
    samples.finish(
        dense(samples.graph(), "layer", samples.input("x", {rows, in}), {.units = units, .input_density = density}));
    for (const char* const name : {"x", "layer/weights", "layer/biases"}) samples.set(name, positions.values(name));
    const auto y = positions.forward();
    EXPECT_EQ(copy(y), copy(samples.forward()));
    positions.backward();
    samples.backward();
    for (const char* const name : {"x", "layer/weights", "layer/biases"}) {
      EXPECT_EQ(copy(positions.gradient(name)), copy(samples.gradient(name))) << name;
    }
  }
}

TEST(Dense, ReluPassesNoGradientWhereItsOutputIsZero) {
  OpHarness harness(1);
  harness.finish(
      relu_if(true, harness.graph(), dense(harness.graph(), "layer", harness.input("x", {1, 1}), {.units = 1})));
  harness.set("x", std::vector{2.0f});
  harness.set("layer/weights", std::vector{3.0f});
  harness.set("layer/biases", std::vector{-6.0f});  // so z is exactly 0
  EXPECT_EQ(harness.forward()[0], 0.0f);
  harness.backward();
  EXPECT_EQ(harness.gradient("layer/weights")[0], 0.0f);
  EXPECT_EQ(harness.gradient("layer/biases")[0], 0.0f);
  EXPECT_EQ(harness.gradient("x")[0], 0.0f);
}

TEST(Dense, NamesAndShapesAreTensorFlows) {
  Graph graph(4);
  OpHarness harness(4);
  const Value y = dense(harness.graph(), "layer1", harness.input("x", {4, 28, 28, 1}), {.units = 500});
  EXPECT_EQ(harness.graph().shape(y), (Shape{4, 500}));
  const auto& specs = harness.graph().parameters();
  EXPECT_EQ(specs[1].name, "layer1/weights");
  EXPECT_EQ(specs[1].shape, (Shape{784, 500}));
  EXPECT_EQ(specs[2].name, "layer1/biases");
  EXPECT_EQ(specs[2].shape, (Shape{500}));
}

/// In bf16, dense processes the rows like images that are one or two columns wide.
TEST(DenseOp, IsNearFloat32InBf16AtAnyNumberOfRows) {
  for (const std::int64_t rows : {1, 17, 31, 32, 33, 34, 62, 64, 97, 226}) {
    const OpCase op{.name = "dense", .batch = rows, .build = [=](OpHarness& h) {
                      return dense(h.graph(), "layer", h.input("x", {rows, 50}), {.units = 37});
                    }};
    CpuDevice device(2);
    OpOnCpu expected(op, device, Arithmetic::fp32), found(op, device, Arithmetic::bf16);
    SCOPED_TRACE(rows);
    expect_close(results_of(op, expected.harness()), results_of(op, found.harness()), op.bf16_tolerance);
  }
}

}  // namespace
}  // namespace carillon::testing
