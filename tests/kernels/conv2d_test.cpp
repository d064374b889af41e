#include "kernels/conv2d/conv2d.h"
#include "kernels/elementwise/elementwise.h"
#include "src/graph/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/float_arrays.h"
#include "tests/support/naive_conv2d.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

using Case = Conv2dCase;

void expect_near(std::span<const float> found, std::span<const double> expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double scale = 1.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-5 * scale) << what << " element " << i;
}

class Conv2d : public ::testing::TestWithParam<Case> {
 protected:
  Conv2d()
      : naive_(GetParam()),
        device_(GetParam().threads, {.convolution = ConvolutionMethod::direct}),
        harness_(GetParam().batch, device_) {
    const Value x = harness_.input("x", naive_.x_shape);
    const Value y = relu_if(GetParam().relu, harness_.graph(), conv2d(harness_.graph(), "conv", x, GetParam().params));
    EXPECT_EQ(harness_.graph().shape(y), naive_.y_shape);
    harness_.finish(y);
  }
  NaiveConv2d naive_;
  CpuDevice device_;
  OpHarness harness_;
};

TEST_P(Conv2d, ForwardAndGradientsEqualTheDefinition) {
  const bool has_biases = GetParam().params.biases.has_value();
  const auto x = harness_.values("x"), weights = harness_.values("conv/weights"),
             biases = has_biases ? harness_.values("conv/biases") : std::span<float>{};
  const auto y = harness_.forward();
  std::vector<double> expected = naive_.forward(x, weights, biases);
  std::vector<double> dz(y.size());
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  for (std::size_t i = 0; i < dz.size(); ++i) {
    const bool passes = !GetParam().relu || y[i] > 0.0f;
    if (GetParam().relu) expected[i] = std::max(expected[i], 0.0);
    dz[i] = passes ? dy[i] : 0.0;
  }
  expect_near(y, expected, "y");
  harness_.backward();
  const Conv2dGradients gradients = naive_.backward(x, weights, dz);
  expect_near(harness_.gradient("x"), gradients.x, "dx");
  expect_near(harness_.gradient("conv/weights"), gradients.weights, "dW");
  if (has_biases) expect_near(harness_.gradient("conv/biases"), gradients.biases, "db");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Conv2d,
    ::testing::Values(Case{1, 1, 1, 1, {.filters = 1, .kernel = 1}}, Case{1, 1, 1, 2, {.filters = 3, .kernel = 5}},
                      Case{2, 3, 4, 3, {.filters = 7, .kernel = 5}, 2, true},
                      Case{3, 7, 5, 17, {.filters = 16, .kernel = 3}, 2, true},
                      Case{2, 6, 7, 5, {.filters = 33, .kernel = 4}},  // even size: more padding after than before
                      Case{2, 9, 8, 3, {.filters = 8, .kernel = 3, .stride = 2}, 2, true},
                      Case{5, 28, 28, 1, {.filters = 6, .kernel = 5, .padding = Padding::valid}, 2, true},
                      Case{2, 5, 5, 16, {.filters = 20, .kernel = 5, .padding = Padding::valid}},
                      // Convolutions of ResNets: 3x3 with stride 2, a projection, and a stem.
                      Case{2, 8, 6, 5, {3, 3, 2, Padding::symmetric(1), {}, std::nullopt}, 2},
                      Case{2, 8, 7, 5, {4, 1, 2, Padding::valid, {}, std::nullopt}, 1, true},
                      Case{2, 14, 9, 3, {8, 7, 2, Padding::symmetric(3), {}, std::nullopt}, 2},
                      Case{2, 5, 5, 3, {.filters = 4, .kernel = 3, .padding = Padding::symmetric(2)}, 1, true},
                      Case{3, 24, 24, 3, {.filters = 64, .kernel = 5}, 2, true},
                      Case{2, 12, 12, 64, {.filters = 64, .kernel = 5}, 1, true},
                      Case{2, 12, 12, 64, {.filters = 64, .kernel = 5}, 2}));

/// Convolutions with groups, dilation, rectangular windows, or padding on some sides only.
std::vector<Case> general_cases() {
  std::vector<Case> cases;
  for (const int threads : {1, 3}) {
    for (const std::int64_t groups : {2, 4}) {
      cases.push_back({3, 7, 6, 8, {.filters = 12, .kernel = 3, .groups = groups}, threads, true});
      cases.push_back({2, 9, 8, 32, {.filters = 64, .kernel = 3, .stride = 2, .groups = groups}, threads});
      cases.push_back({2, 5, 5, 12, {.filters = 8, .kernel = 1, .biases = std::nullopt, .groups = groups}, threads});
    }
    cases.push_back({2, 7, 6, 5, {.filters = 10, .kernel = 3, .groups = 5}, threads, true});
    cases.push_back({2, 7, 6, 16, {.filters = 32, .kernel = 3, .stride = 2, .groups = 16}, threads});
    cases.push_back({2, 7, 6, 16, {.filters = 16, .kernel = 5, .groups = 16}, threads});
    cases.push_back({2, 11, 9, 3, {.filters = 5, .kernel = 3, .dilation = 2}, threads, true});
    cases.push_back(
        {2, 11, 9, 16, {.filters = 16, .kernel = 3, .padding = Padding::symmetric(2), .dilation = 2}, threads});
    cases.push_back(
        {2, 9, 16, 16, {.filters = 32, .kernel = 3, .stride = 2, .dilation = 2, .dilation_width = 3}, threads});
    cases.push_back({2, 11, 9, 8, {.filters = 8, .kernel = 3, .groups = 8, .dilation = 3}, threads});
    cases.push_back({2, 8, 9, 16, {.filters = 16, .kernel = 3, .kernel_width = 1}, threads, true});
    cases.push_back({2, 8, 9, 5, {.filters = 7, .kernel = 1, .kernel_width = 7}, threads});
    cases.push_back({2, 17, 17, 16, {.filters = 24, .kernel = 7, .kernel_width = 1, .pads = {3, 0, 3, 0}}, threads});
    cases.push_back({2, 8, 9, 16, {.filters = 16, .kernel = 3, .pads = {0, 0, 1, 1}}, threads, true});
    cases.push_back({2, 8, 9, 3, {.filters = 16, .kernel = 3, .stride = 2, .pads = {0, 0, 1, 1}}, threads});
    cases.push_back({2, 8, 9, 3, {.filters = 4, .kernel = 4, .pads = {2, 1, 0, 3}}, threads});
    cases.push_back({2, 8, 9, 16, {.filters = 16, .kernel = 3, .stride = 2, .stride_width = 1}, threads, true});
    cases.push_back({2, 5, 4, 16, {.filters = 16, .kernel = 1, .pads = {1, 1, 1, 1}}, threads});
    cases.push_back({1, 5, 4, 3, {.filters = 4, .kernel = 3, .pads = {4, 0, 0, 5}}, threads});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(General, Conv2d, ::testing::ValuesIn(general_cases()));

class Conv2dDifferences : public ::testing::TestWithParam<Case> {};

TEST_P(Conv2dDifferences, MatchTheGradients) {
  const Case& c = GetParam();
  OpHarness harness(c.batch, c.threads);
  const Value x = harness.input("x", {c.batch, c.height, c.width, c.in});
  harness.finish(relu_if(c.relu, harness.graph(), conv2d(harness.graph(), "conv", x, c.params)));
  if (c.relu) {  // avoids the kink: for half of the filters, the ReLU passes every value; for the others, it passes
                 // none
    std::vector<float> biases(static_cast<std::size_t>(c.params.filters));
    for (std::size_t i = 0; i < biases.size(); ++i) biases[i] = i % 2 == 0 ? 50.0f : -50.0f;
    harness.set("conv/biases", biases);
  }
  harness.expect_gradients_match_differences(1e-2, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Conv2dDifferences,
    ::testing::Values(Case{2, 5, 6, 3, {.filters = 4, .kernel = 5}, 2},
                      Case{2, 5, 6, 3, {.filters = 4, .kernel = 3}, 1, true},
                      Case{1, 7, 7, 2, {.filters = 5, .kernel = 5, .padding = Padding::valid}, 2, true},
                      Case{2, 5, 6, 4, {.filters = 6, .kernel = 3, .groups = 2}, 2},
                      Case{1, 7, 8, 2, {.filters = 3, .kernel = 3, .dilation = 2}},
                      Case{1, 7, 8, 2, {.filters = 3, .kernel = 1, .kernel_width = 5, .pads = {0, 1, 0, 2}}}));

/// oneDNN divides the sums of the weights gradient among its threads. So the bits of the weights gradient depend on the
/// number of threads; the bits of other results do not.
TEST(Conv2dThreads, GiveOutputsAndInputGradientsWithEqualBits) {
  for (const Case& c : general_cases()) {
    if (c.threads == 1) continue;
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
      const auto results_with = [&](int threads) {
        CpuDevice device(threads);
        OpHarness harness(c.batch, device, arithmetic);
        const Value x = harness.input("x", {c.batch, c.height, c.width, c.in});
        harness.finish(conv2d(harness.graph(), "conv", x, c.params));
        const auto y = harness.forward();
        std::vector<float> all(y.begin(), y.end());
        harness.backward();
        const auto dx = harness.gradient("x");
        all.insert(all.end(), dx.begin(), dx.end());
        return all;
      };
      EXPECT_TRUE(equal_bits(results_with(1), results_with(c.threads))) << ::testing::PrintToString(c);
    }
  }
}

TEST(Conv2d, ReluPassesNoGradientWhereItsOutputIsZero) {
  OpHarness harness(1);
  const Value x = harness.input("x", {1, 1, 1, 1});
  harness.finish(relu(harness.graph(), "relu", conv2d(harness.graph(), "conv", x, {.filters = 1, .kernel = 1})));
  harness.set("x", std::vector{2.0f});
  harness.set("conv/weights", std::vector{3.0f});
  harness.set("conv/biases", std::vector{-6.0f});  // so z is exactly 0
  EXPECT_EQ(harness.forward()[0], 0.0f);
  harness.backward();
  EXPECT_EQ(harness.gradient("conv/weights")[0], 0.0f);
  EXPECT_EQ(harness.gradient("conv/biases")[0], 0.0f);
  EXPECT_EQ(harness.gradient("x")[0], 0.0f);
}

/// An op without inputs that makes images in which all pixels have one value. A convolution that reads these images
/// computes no gradient of its input, because the images have none.
class ConstantImages final : public OpDefinition {
 public:
  std::string_view type() const override { return "constant_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext&, const OpTensors& tensors) const override {
    struct Fill final : Op {
      explicit Fill(const Tensor& given) : x(given) {}
      void forward(Stream&) override { std::ranges::fill(x.floats(), 0.5f); }
      void backward(Stream&) override { ADD_FAILURE() << "nobody wants this gradient"; }
      Tensor x;
    };
    EXPECT_TRUE(tensors.output_gradients.empty() || !tensors.output_gradients[0]);
    return std::make_unique<Fill>(tensors.outputs.at(0));
  }
};

TEST(Conv2d, AFirstLayerHasParameterGradientsOnly) {
  OpHarness harness(2);
  const Value x = harness.graph().add_op(
      {.name = "images", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {2, 4, 5, 3});
  harness.finish(conv2d(harness.graph(), "conv", x, {.filters = 2, .kernel = 1}));
  harness.forward();
  harness.backward();
  const std::vector<float> dy = OpHarness::output_gradient(2 * 4 * 5 * 2);
  double sums[2] = {};
  for (std::size_t i = 0; i < dy.size(); ++i) sums[i % 2] += dy[i];
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(harness.gradient("conv/weights")[i], 0.5 * sums[i % 2], 1e-5);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(harness.gradient("conv/biases")[i], sums[i], 1e-5);
}

TEST(Conv2d, RunsAgainWithNewWeights) {
  OpHarness harness(1);
  const Value x = harness.input("x", {1, 6, 6, 16});
  harness.finish(conv2d(harness.graph(), "conv", x, {.filters = 16, .kernel = 3}));
  const auto first = harness.forward();
  const std::vector<float> before(first.begin(), first.end());
  harness.backward();
  const std::vector<float> dx(harness.gradient("x").begin(), harness.gradient("x").end());
  for (float& weight : harness.values("conv/weights")) weight *= 2.0f;
  for (float& bias : harness.values("conv/biases")) bias *= 2.0f;
  const auto again = harness.forward();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(again[i], 2.0f * before[i]);
  harness.backward();
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(harness.gradient("x")[i], 2.0f * dx[i]);
}

TEST(Conv2d, NamesAndShapesAreTensorFlows) {
  Graph graph(4);
  const Value images =
      graph.add_op({.name = "images", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 24, 22, 3});
  const Value y = conv2d(graph, "conv1", images, {.filters = 64, .kernel = 5, .l2_factor = 0.5f});
  EXPECT_EQ(graph.shape(y), (Shape{4, 24, 22, 64}));
  const auto& specs = graph.parameters();
  EXPECT_EQ(specs[0].name, "conv1/weights");
  EXPECT_EQ(specs[0].shape, (Shape{5, 5, 3, 64}));
  EXPECT_EQ(specs[0].l2_factor, 0.5f);
  EXPECT_EQ(specs[1].name, "conv1/biases");
  EXPECT_EQ(specs[1].shape, (Shape{64}));
  EXPECT_EQ(specs[1].l2_factor, 0.0f);
}

TEST(Conv2d, WeightsOfGroupsHaveTheChannelsOfAGroup) {
  Graph graph(4);
  const Value images =
      graph.add_op({.name = "images", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 24, 22, 6});
  const Conv2dParams params{.filters = 9, .kernel = 3, .groups = 3, .kernel_width = 5, .stride_width = 2};
  EXPECT_EQ(graph.shape(conv2d(graph, "conv1", images, params)), (Shape{4, 24, 11, 9}));
  EXPECT_EQ(graph.parameters()[0].shape, (Shape{3, 5, 2, 9}));
}

TEST(Conv2d, DefaultsAreNotWritten) {
  const Attributes plain = attributes_of(Conv2dParams{.filters = 3, .kernel = 5});
  EXPECT_EQ(plain.values().size(), 2u);
  const Conv2dParams general{.filters = 4, .kernel = 3, .groups = 2, .dilation = 3, .pads = {0, 1, 2, 3}};
  const auto read = params_of<Conv2dParams>(attributes_of(general));
  EXPECT_EQ(read.groups, 2);
  EXPECT_EQ(read.dilation, 3);
  EXPECT_EQ(read.pads, general.pads);
}

TEST(Conv2d, KeepsItsOutputForTheReluOnly) {
  for (const bool relu : {false, true}) {
    Graph graph(4);
    const Value images =
        graph.add_op({.name = "images", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 5, 5, 3});
    const Value y = relu_if(relu, graph, conv2d(graph, "conv", images, {.filters = 2, .kernel = 3}));
    fuse_activations(graph, std::vector{y});
    const BackwardNeeds needs = graph.nodes().back().definition->backward_needs();
    EXPECT_TRUE(needs.inputs);
    EXPECT_EQ(needs.outputs, relu);
  }
}

TEST(Conv2d, RejectsUnsupportedShapes) {
  Graph graph(4);
  const Value small =
      graph.add_op({.name = "small", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 3, 9, 1});
  EXPECT_THROW(conv2d(graph, "a", small, {.filters = 1, .kernel = 5, .padding = Padding::valid}), Error);
  EXPECT_THROW(conv2d(graph, "b", small, {.filters = 1, .kernel = 0}), Error);
  EXPECT_THROW(conv2d(graph, "d", small, {.filters = 1, .kernel = 3, .padding = Padding::symmetric(3)}), Error);
  EXPECT_THROW(conv2d(graph, "e", small, {.filters = 1, .kernel = 3, .pads = {1, 1}}), Error);
  EXPECT_THROW(conv2d(graph, "f", small, {.filters = 1, .kernel = 3, .pads = {0, -1, 0, 0}}), Error);
  EXPECT_THROW(conv2d(graph, "g", small, {.filters = 1, .kernel = 3, .padding = Padding::valid, .dilation = 2}), Error);
  EXPECT_THROW(conv2d(graph, "h", small, {.filters = 2, .kernel = 3, .groups = 2}), Error);
  EXPECT_THROW(conv2d(graph, "i", small, {.filters = 2, .kernel = 3, .groups = 0}), Error);
  EXPECT_THROW(conv2d(graph, "j", small, {.filters = 1, .kernel = 3, .kernel_width = -1}), Error);
  const Value wide =
      graph.add_op({.name = "wide", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 3, 9, 4});
  EXPECT_THROW(conv2d(graph, "k", wide, {.filters = 6, .kernel = 3, .groups = 4}), Error);
  const Value flat =
      graph.add_op({.name = "flat", .definition = std::make_shared<ConstantImages>(), .inputs = {}}, {4, 9});
  EXPECT_THROW(conv2d(graph, "c", flat, {.filters = 1, .kernel = 1}), Error);
}

}  // namespace
}  // namespace carillon::testing
