// Tests depthwise_conv2d on a CPU with every instruction set that this processor has, and with several numbers of
// threads. The results are compared with loops in double precision and with PyTorch.
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "tests/support/float_arrays.h"
#include "tests/support/isa_name.h"
#include "tests/support/naive_depthwise_conv2d.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

using Case = DepthwiseCase;

/// Cases for every variant of the loops. In some cases, the channels do not fill the last vector. Some windows are
/// larger than the image, and some cases have padding on one side only.
const std::vector<Case> cases{
    {{2, 7, 7, 32}, {.kernel = 7}},
    {{3, 14, 14, 20}, {.kernel = 7}},
    {{1, 28, 30, 16}, {.kernel = 7}},
    {{1, 60, 56, 8}, {.kernel = 7}},
    {{1, 56, 56, 44}, {.kernel = 7}},  // the image is larger than the cache
    {{2, 1, 1, 3}, {.kernel = 7}},
    {{2, 3, 2, 1}, {.kernel = 7}},
    {{2, 9, 17, 5}, {.kernel = 7, .stride = 2}},
    {{2, 8, 8, 33}, {.kernel = 3}},
    {{2, 15, 12, 16}, {.kernel = 3, .stride = 2, .padding = Padding::symmetric(1)}},
    {{2, 12, 8, 7}, {.kernel = 3, .stride = 2}},
    {{2, 11, 10, 4}, {.kernel = 3, .stride = 3, .padding = Padding::valid, .biases = std::nullopt}},
    {{2, 9, 9, 16}, {.kernel = 5, .padding = Padding::symmetric(4)}},
    {{2, 10, 9, 17}, {.kernel = 2, .padding = Padding::valid}},
    {{2, 8, 7, 3}, {.kernel = 4, .stride = 2}},
    {{3, 6, 5, 2}, {.kernel = 1, .stride = 3}},
    {{2, 20, 19, 3}, {.kernel = 9}},
    {{1, 17, 23, 2}, {.kernel = 14, .stride = 3}},
    {{2, 9, 8, 20}, {.kernel = 3, .kernel_width = 1}},
    {{2, 9, 8, 20}, {.kernel = 1, .kernel_width = 7}},
    {{2, 9, 8, 5}, {.kernel = 2, .kernel_width = 3, .pads = {1, 0, 0, 2}}},
    {{2, 9, 8, 16}, {.kernel = 3, .pads = {0, 0, 1, 1}}},
    {{2, 9, 8, 16}, {.kernel = 3, .stride = 2, .pads = {0, 0, 1, 1}}},
    {{2, 9, 8, 16}, {.kernel = 7, .pads = {6, 0, 1, 5}}},
    {{2, 9, 8, 7}, {.kernel = 3, .stride = 2, .stride_width = 1}},
    {{2, 9, 8, 7}, {.kernel = 3, .stride = 1, .stride_width = 3}},
};

struct Results {
  std::vector<float> y, dx, dweights, dbiases;
};

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

void build(OpHarness& harness, const Case& c) {
  harness.finish(depthwise_conv2d(harness.graph(), "conv", harness.input("x", c.shape), c.params));
}

Results results_of(OpHarness& harness, const Case& c) {
  Results results{.y = copy(harness.forward())};
  harness.backward();
  results.dx = copy(harness.gradient("x"));
  results.dweights = copy(harness.gradient("conv/weights"));
  if (c.params.biases) results.dbiases = copy(harness.gradient("conv/biases"));
  return results;
}

NaiveDepthwiseConv2d definition_of(OpHarness& harness, const Case& c, std::span<const float> dy) {
  const std::span<const float> biases = c.params.biases ? harness.values("conv/biases") : std::span<float>{};
  return {c, harness.values("x"), harness.values("conv/weights"), biases, dy};
}

class DepthwiseConv2d : public ::testing::TestWithParam<Isa> {
 protected:
  Results run(const Case& c, int threads) {
    CpuDevice device(threads, {.isa = GetParam()});
    OpHarness harness(c.shape[0], device);
    build(harness, c);
    return results_of(harness, c);
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, DepthwiseConv2d, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa_name(isa.param); });

TEST_P(DepthwiseConv2d, EqualsTheDefinitionForwardAndBackward) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text());
    CpuDevice device(1, {.isa = GetParam()});
    OpHarness harness(c.shape[0], device);
    build(harness, c);
    const Results found = results_of(harness, c);
    const NaiveDepthwiseConv2d expected = definition_of(harness, c, OpHarness::output_gradient(found.y.size()));
    EXPECT_LT(relative_error(found.y, expected.y), 1e-6);
    EXPECT_LT(relative_error(found.dx, expected.dx), 1e-6);
    EXPECT_LT(relative_error(found.dweights, expected.dweights), 5e-6);
    if (!c.params.biases) continue;
    EXPECT_LT(relative_error(found.dbiases, expected.dbiases), 5e-6);
  }
}

TEST_P(DepthwiseConv2d, ReturnsEqualBitsForAnyNumberOfThreads) {
  for (const Case& c : {Case{{5, 7, 7, 100}, {.kernel = 7}}, Case{{7, 16, 15, 24}, {.kernel = 3, .stride = 2}},
                        Case{{1, 56, 56, 40}, {.kernel = 7}}, Case{{70, 5, 5, 3}, {.kernel = 3}},
                        Case{{5, 9, 8, 40}, {.kernel = 1, .stride = 2, .kernel_width = 7, .stride_width = 1}}}) {
    const Results expected = run(c, 1);
    for (const int threads : {2, 3, 7}) {
      SCOPED_TRACE(c.text() + " on " + std::to_string(threads) + " threads");
      const Results found = run(c, threads);
      EXPECT_TRUE(equal_bits(found.y, expected.y));
      EXPECT_TRUE(equal_bits(found.dx, expected.dx));
      EXPECT_TRUE(equal_bits(found.dweights, expected.dweights));
      EXPECT_TRUE(equal_bits(found.dbiases, expected.dbiases));
    }
  }
}

TEST_P(DepthwiseConv2d, ReturnsEqualBitsAgain) {  // the scratch memory still holds rows of the last image
  const Case c{{2, 13, 11, 20}, {.kernel = 7}};
  CpuDevice device(1, {.isa = GetParam()});
  OpHarness harness(c.shape[0], device);
  build(harness, c);
  const Results first = results_of(harness, c), second = results_of(harness, c);
  EXPECT_TRUE(equal_bits(first.y, second.y));
  EXPECT_TRUE(equal_bits(first.dx, second.dx));
  EXPECT_TRUE(equal_bits(first.dweights, second.dweights));
  EXPECT_TRUE(equal_bits(first.dbiases, second.dbiases));
}

TEST_P(DepthwiseConv2d, ASampleDoesNotDependOnTheOthers) {
  const DepthwiseConv2dParams params{.kernel = 3, .stride = 2};
  const std::size_t x_size = 9 * 8 * 19, y_size = 5 * 4 * 19;
  CpuDevice device(1, {.isa = GetParam()});
  const auto run_batch = [&](std::int64_t batch, float others) {
    OpHarness harness(batch, device);
    build(harness, {{batch, 9, 8, 19}, params});
    const std::vector<float> weights = random_values(9 * 19, 5), biases = random_values(19, 6);
    harness.set("conv/weights", weights);
    harness.set("conv/biases", biases);
    std::vector<float> x(x_size * static_cast<std::size_t>(batch), others);
    const std::vector<float> sample = random_values(x_size, 7);
    std::ranges::copy(sample, x.begin());
    harness.set("x", x);
    const std::span<const float> y = harness.forward();
    harness.backward();
    return std::pair(copy(y.first(y_size)), copy(harness.gradient("x").first(x_size)));
  };
  const auto alone = run_batch(1, 0.0f);
  for (const float others : {0.5f, std::numeric_limits<float>::quiet_NaN()}) {
    const auto together = run_batch(4, others);
    EXPECT_TRUE(equal_bits(together.first, alone.first)) << others;
    EXPECT_TRUE(equal_bits(together.second, alone.second)) << others;
  }
}

class DepthwiseConv2dCases : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Shapes, DepthwiseConv2dCases, ::testing::ValuesIn(cases));

TEST_P(DepthwiseConv2dCases, GradientsMatchFiniteDifferences) {
  OpHarness harness(GetParam().shape[0]);
  build(harness, GetParam());
  harness.expect_gradients_match_differences(1e-2, 1e-3, 20);
}

TEST(DepthwiseConv2dOp, DoesAsPyTorch) {
  for (const std::int64_t kernel : {7, 3}) {
    const Case c{{2, 9, 8, 5},
                 {.kernel = kernel, .stride = kernel == 7 ? 1 : 2, .padding = Padding::symmetric(kernel / 2)}};
    const std::string name = "depthwise_conv2d/" + std::to_string(kernel) + "/";
    OpHarness harness(2);
    build(harness, c);
    harness.set("x", of_pytorch(name + "x"));
    harness.set("conv/weights", of_pytorch(name + "weights"));
    harness.set("conv/biases", of_pytorch(name + "biases"));
    expect_as_pytorch(harness.forward(), name + "y", 2e-6);
    // A test above compares the op's gradients with this definition, so this test compares only the definition with
    // PyTorch.
    const NaiveDepthwiseConv2d expected = definition_of(harness, c, of_pytorch(name + "dy"));
    expect_as_pytorch(expected.floats(expected.dx), name + "dx", 2e-6);
    expect_as_pytorch(expected.floats(expected.dweights), name + "dweights", 2e-6);
    expect_as_pytorch(expected.floats(expected.dbiases), name + "dbiases", 2e-6);
  }
}

TEST(DepthwiseConv2dOp, HasTheVariablesAndShapesOfAGroupedConvolution) {
  Graph graph(2);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {2, 9, 8, 6});
  EXPECT_EQ(graph.shape(depthwise_conv2d(graph, "a", x, {.kernel = 3, .stride = 2, .l2_factor = 0.5f})),
            (Shape{2, 5, 4, 6}));
  depthwise_conv2d(graph, "b", x, {.kernel = 3, .biases = std::nullopt});
  const auto& parameters = graph.parameters();
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[0].name, "a/weights");
  EXPECT_EQ(parameters[0].shape, (Shape{3, 3, 1, 6}));
  EXPECT_EQ(parameters[0].l2_factor, 0.5f);
  EXPECT_EQ(parameters[1].name, "a/biases");
  EXPECT_EQ(parameters[1].shape, (Shape{6}));
  EXPECT_EQ(parameters[1].l2_factor, 0.0f);
  EXPECT_EQ(parameters[2].name, "b/weights");
}

TEST(DepthwiseConv2dOp, RefusesOtherShapes) {
  Graph graph(2);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {2, 9, 8, 6});
  const Value flat = graph.add_op({.name = "flat", .definition = nullptr, .inputs = {}}, {2, 9});
  EXPECT_THROW(depthwise_conv2d(graph, "a", x, {.kernel = 9, .padding = Padding::valid}), Error);
  EXPECT_THROW(depthwise_conv2d(graph, "d", x, {.kernel = 1, .pads = {1, 0, 0, 0}}), Error);
  EXPECT_THROW(depthwise_conv2d(graph, "b", x, {.kernel = 0}), Error);
  EXPECT_THROW(depthwise_conv2d(graph, "c", flat, {.kernel = 3}), Error);
}

}  // namespace
}  // namespace carillon::testing
