#include "carillon/core/error.h"
#include "kernels/image_input/image_input.h"
#include "tests/kernels/batch_norm_reference.h"
#include "tests/support/noise_batch.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

using namespace batch_norm_reference;

class BatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  BatchNorm() : harness_(GetParam().shape[0], GetParam().threads) { build(harness_, GetParam()); }
  OpHarness harness_;
};

TEST_P(BatchNorm, EqualsTheDefinitionForwardAndBackward) { expect_the_definition(harness_, GetParam(), 2e-6); }

TEST_P(BatchNorm, GradientsMatchFiniteDifferences) {
  if (GetParam().activation == ActivationKind::relu) return;  // near the kink of the ReLU, finite differences are wrong
  harness_.expect_gradients_match_differences(1e-2, 1e-2, 20);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchNorm,
                         ::testing::Values(Case{{4, 1}}, Case{{5, 3}}, Case{{7, 3, 3, 5}, {}, ActivationKind::relu},
                                           Case{{8, 4, 4, 3}}, Case{{8, 4, 4, 3}, {}, ActivationKind::relu, 2},
                                           Case{{33, 129}, {}, ActivationKind::relu},
                                           Case{{13, 3, 5, 64}, unscaled, ActivationKind::relu, 2},
                                           Case{{64, 9, 5, 32}, {}, ActivationKind::none, 2},
                                           Case{{64, 9, 5, 33}, unscaled, ActivationKind::relu, 3},
                                           Case{{3, 2, 1, 700}, {.initial_scale = 0.0f}},
                                           Case{{9, 3, 5, 64}, unscaled, ActivationKind::gelu, 2},
                                           Case{{64, 9, 5, 33}, {}, ActivationKind::gelu, 3},
                                           Case{{7, 3, 3, 5}, {}, ActivationKind::silu},
                                           Case{{5, 3}, {}, ActivationKind::none, 1, true},
                                           Case{{7, 3, 3, 5}, {}, ActivationKind::relu, 1, true},
                                           Case{{64, 9, 5, 33}, unscaled, ActivationKind::relu, 3, true},
                                           Case{{64, 9, 5, 32}, {}, ActivationKind::none, 2, true}));

TEST(BatchNorm, KeepsItsDigitsFarFromZero) {
  for (const ActivationKind kind : {ActivationKind::none, ActivationKind::relu}) {
    const Case c{.shape = {64, 5, 5, 6}, .activation = kind};
    OpHarness harness(64);
    build(harness, c);
    for (float& x : harness.values("x")) x = 1000.0f + 0.01f * x;
    expect_the_definition(harness, c, 3e-6);
  }
}

/// Before the op sums the rows of a block, it subtracts the block's first row from each row. In this test, the first
/// row is an outlier.
TEST(BatchNorm, BearsAnOutlierInTheFirstRow) {
  const Case c{.shape = {100, 6}};
  OpHarness harness(100);
  build(harness, c);
  for (float& x : harness.values("x").first(6)) x = 3e4f;
  expect_the_definition(harness, c, 1e-5);
}

TEST(BatchNorm, DoesAsPyTorchInTrainingAndEvaluation) {
  OpHarness harness(4, 2);
  build(harness, {.shape = {4, 3, 2, 5}});
  harness.set("norm/gamma", of_pytorch("batch_norm/gamma"));
  harness.set("norm/beta", of_pytorch("batch_norm/beta"));
  std::vector<float> y;
  for (const char* batch : {"0", "1", "2"}) {
    harness.set("x", of_pytorch(std::string("batch_norm/x") + batch));
    const auto found = harness.forward();
    y.assign(found.begin(), found.end());
  }
  expect_as_pytorch(y, "batch_norm/y", 1e-6);
  expect_as_pytorch(harness.state("norm/moving_mean"), "batch_norm/moving_mean", 1e-6);
  expect_as_pytorch(harness.state("norm/moving_variance"), "batch_norm/moving_variance", 1e-6);
  expect_as_pytorch(harness.evaluate(), "batch_norm/evaluation", 1e-6);
  // The evaluation has not changed the moving mean.
  expect_as_pytorch(harness.state("norm/moving_mean"), "batch_norm/moving_mean", 1e-6);
}

/// The tests above compare the op's gradients with the gradients of Reference. This test compares the gradients of
/// Reference with the gradients of PyTorch.
TEST(BatchNorm, ItsReferenceHasPyTorchsGradients) {
  const std::vector<float> x = of_pytorch("batch_norm/x2"), dy = of_pytorch("batch_norm/dy");
  const Reference expected(x, dy, of_pytorch("batch_norm/gamma"), of_pytorch("batch_norm/beta"), {});
  const auto as_floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  expect_as_pytorch(as_floats(expected.dx), "batch_norm/dx", 1e-6);
  expect_as_pytorch(as_floats(expected.dgamma), "batch_norm/dgamma", 1e-6);
  expect_as_pytorch(as_floats(expected.dbeta), "batch_norm/dbeta", 1e-6);
}

TEST(BatchNorm, DoesNotDependOnTheThreadCount) {
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 3}) {
    OpHarness harness(96, threads);
    build(harness, {.shape = {96, 6, 5, 24}, .activation = ActivationKind::gelu});
    const auto y = harness.forward();
    std::vector<std::vector<float>> found{{y.begin(), y.end()}};
    harness.backward();
    for (const char* name : {"x", "norm/gamma", "norm/beta"}) {
      found.emplace_back(harness.gradient(name).begin(), harness.gradient(name).end());
    }
    for (const char* name : {"norm/moving_mean", "norm/moving_variance"}) {
      found.emplace_back(harness.state(name).begin(), harness.state(name).end());
    }
    if (threads == 1) expected = found;
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(equal_bits(found[i], expected[i])) << threads << " " << i;
  }
}

TEST(BatchNorm, NotANumberStaysInItsChannelAndPassesTheRelu) {
  OpHarness harness(4);
  build(harness, {.shape = {4, 3, 3}, .activation = ActivationKind::relu});
  harness.values("x")[10] = std::nanf("");
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 3 == 1) << i;
}

TEST(BatchNorm, FusesTheFollowingActivation) {
  for (const ActivationKind kind :
       {ActivationKind::none, ActivationKind::relu, ActivationKind::gelu, ActivationKind::silu}) {
    OpHarness harness(4);
    build(harness, {.shape = {4, 3}, .activation = kind});
    EXPECT_EQ(harness.graph().nodes().size(), 3);  // input, batch norm and objective
  }
}

TEST(BatchNorm, FusesTheFollowingSumAndItsRelu) {
  for (const ActivationKind kind : {ActivationKind::none, ActivationKind::relu}) {
    OpHarness harness(4);
    build(harness, {.shape = {4, 3}, .activation = kind, .has_addend = true});
    EXPECT_EQ(harness.graph().nodes().size(), 4);  // two inputs, batch norm and objective
  }
}

TEST(BatchNorm, ASumWithPixelsHasGradientsWhereNobodyWantsThoseOfThePixels) {
  const NoiseBatch samples(0, 20, 12);
  OpHarness harness(20);
  harness.step().batch = samples.batch();
  const Value pixels = image_input(harness.graph(), "pixels", {.sample = {2, 2, 3}});
  const Value x = harness.input("x", {20, 2, 2, 3}), y = batch_norm(harness.graph(), "norm", x);
  harness.finish(relu(harness.graph(), "relu", add(harness.graph(), "sum", pixels, y)));
  EXPECT_EQ(harness.graph().nodes().size(), 4);  // two inputs, batch norm and objective
  const std::size_t count = harness.forward().size();
  harness.backward();
  std::vector<float> addend;
  for (const std::uint8_t* image : samples.batch().images) addend.insert(addend.end(), image, image + 12);
  const Reference expected(harness.values("x"), OpHarness::output_gradient(count), harness.values("norm/gamma"),
                           harness.values("norm/beta"), {.activation = ActivationKind::relu}, {}, addend);
  expect_all_near(harness.gradient("x"), expected.dx, 2e-6);
  expect_all_near(harness.gradient("norm/gamma"), expected.dgamma, 2e-6);
  expect_all_near(harness.gradient("norm/beta"), expected.dbeta, 2e-6);
}

TEST(BatchNorm, ASumHasTheGradientOfItsAddendWhereNobodyWantsThatOfThePixels) {
  const NoiseBatch samples(0, 20, 12);
  for (const bool with_relu : {false, true}) {
    OpHarness harness(20);
    harness.step().batch = samples.batch();
    Graph& graph = harness.graph();
    const Value pixels = image_input(graph, "pixels", {.sample = {2, 2, 3}}), x = harness.input("x", {20, 2, 2, 3});
    harness.finish(relu_if(with_relu, graph, add(graph, "sum", batch_norm(graph, "norm", pixels), x)));
    EXPECT_EQ(graph.nodes().size(), 4);  // two inputs, batch norm and objective
    const std::span<const float> y = harness.forward();
    std::vector<float> expected = OpHarness::output_gradient(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) expected[i] = with_relu && !(y[i] > 0.0f) ? 0.0f : expected[i];
    harness.backward();
    EXPECT_TRUE(std::ranges::equal(harness.gradient("x"), expected)) << with_relu;
  }
}

TEST(BatchNorm, ASumKeepsNotANumberOfEitherOperand) {
  OpHarness harness(4);
  build(harness, {.shape = {4, 3, 3}, .activation = ActivationKind::relu, .has_addend = true});
  harness.values("x")[10] = std::nanf("");
  harness.values("addend")[2] = std::nanf("");
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 3 == 1 || i == 2) << i;
}

TEST(BatchNorm, HasGradientsWhereNobodyWantsThatOfItsInput) {
  const BatchNormForm form{.activation = ActivationKind::relu};
  const NoiseBatch samples(0, 20, 12);
  OpHarness harness(20);
  harness.step().batch = samples.batch();
  const Value x = image_input(harness.graph(), "x", {.sample = {2, 2, 3}});
  harness.finish(relu(harness.graph(), "relu", batch_norm(harness.graph(), "norm", x)));
  const std::size_t count = harness.forward().size();
  harness.backward();
  std::vector<float> pixels;
  for (const std::uint8_t* image : samples.batch().images) pixels.insert(pixels.end(), image, image + 12);
  const Reference expected(pixels, OpHarness::output_gradient(count), harness.values("norm/gamma"),
                           harness.values("norm/beta"), form);
  expect_all_near(harness.gradient("norm/gamma"), expected.dgamma, 2e-6);
  expect_all_near(harness.gradient("norm/beta"), expected.dbeta, 2e-6);
}

TEST(BatchNorm, AConstantChannelBecomesItsShift) {
  OpHarness harness(8);
  build(harness, {.shape = {8, 2, 3}});
  std::ranges::fill(harness.values("x"), 0.1f);
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], harness.values("norm/beta")[i % 3], 1e-6) << i;
  EXPECT_NEAR(harness.state("norm/moving_variance")[0], 0.9f, 1e-6);
}

TEST(BatchNorm, ItsVariablesAndStatesHaveTheirNamesAndValues) {
  Graph graph(4);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {4, 2, 2, 3});
  const Value y = batch_norm(graph, "a", x);
  EXPECT_EQ(graph.shape(y), graph.shape(x));
  batch_norm(graph, "b", x, {.trains_scale = false});
  batch_norm(graph, "c", x, {.initial_scale = 0.0f});
  std::vector<std::string> lines;
  for (const ParameterSpec& spec : graph.parameters()) {
    lines.push_back(spec.name + " " + std::to_string(initial_values(spec, 1).at(2)));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"a/gamma 1.000000", "a/beta 0.000000", "b/beta 0.000000",
                                             "c/gamma 0.000000", "c/beta 0.000000"}));
  const BufferSpec& mean = graph.buffers().at(0);
  const BufferSpec& variance = graph.buffers().at(1);
  EXPECT_EQ(mean.name, "a/moving_mean");
  EXPECT_EQ(mean.initial_value, 0.0f);
  EXPECT_EQ(variance.name, "a/moving_variance");
  EXPECT_EQ(variance.initial_value, 1.0f);
  EXPECT_EQ(mean.across_ranks, AcrossRanks::mean);
  EXPECT_EQ(variance.across_ranks, AcrossRanks::mean);
}

TEST(BatchNorm, RefusesParametersOutOfRange) {
  Graph graph(1);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {1, 3});
  const Value scalar = graph.add_op({.name = "s", .definition = nullptr, .inputs = {}}, Shape{});
  EXPECT_THROW(batch_norm(graph, "norm", scalar), Error);
  EXPECT_THROW(batch_norm(graph, "norm", x, {.epsilon = 0.0f}), Error);
  EXPECT_THROW(batch_norm(graph, "norm", x, {.momentum = 1.5f}), Error);
}

}  // namespace
}  // namespace carillon::testing
