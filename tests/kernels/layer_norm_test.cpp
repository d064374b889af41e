#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "src/graph/batch_tiling.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape shape;
  int threads = 1;
  LayerNormParams params = {};
};

/// Computes the op's results in double, by the formula.
struct Reference {
  std::vector<double> y, dx, dgamma, dbeta;

  Reference(std::span<const float> x, std::span<const float> dy, std::span<const float> gamma,
            std::span<const float> beta, float epsilon)
      : y(x.size()), dx(x.size()), dgamma(gamma.size()), dbeta(gamma.size()) {
    const std::size_t channels = gamma.size();
    for (std::size_t at = 0; at < x.size(); at += channels) {
      add_row(x.subspan(at, channels), dy.subspan(at, channels), gamma, beta, epsilon, at);
    }
  }

 private:
  void add_row(std::span<const float> x, std::span<const float> dy, std::span<const float> gamma,
               std::span<const float> beta, double epsilon, std::size_t at) {
    const double size = static_cast<double>(x.size());
    double mean = 0.0, variance = 0.0, mean_g = 0.0, mean_product = 0.0;
    for (const float value : x) mean += value / size;
    for (const float value : x) variance += std::pow(value - mean, 2) / size;
    const double inverse = 1.0 / std::sqrt(variance + epsilon);
    const auto xhat = [&](std::size_t c) { return (x[c] - mean) * inverse; };
    for (std::size_t c = 0; c < x.size(); ++c) {
      y[at + c] = gamma[c] * xhat(c) + beta[c];
      dgamma[c] += dy[c] * xhat(c);
      dbeta[c] += dy[c];
      mean_g += static_cast<double>(gamma[c]) * dy[c] / size;
      mean_product += static_cast<double>(gamma[c]) * dy[c] * xhat(c) / size;
    }
    for (std::size_t c = 0; c < x.size(); ++c) {
      dx[at + c] = inverse * (static_cast<double>(gamma[c]) * dy[c] - mean_g - xhat(c) * mean_product);
    }
  }
};

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

void build(OpHarness& harness, const Case& c) {
  harness.finish(layer_norm(harness.graph(), "norm", harness.input("x", c.shape), c.params));
}

void expect_all_near(std::span<const float> found, const std::vector<double>& expected, double tolerance) {
  double scale = 0.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance * scale) << i;
}

/// Runs the forward and backward pass, and compares the results with Reference. `tolerance`: allowed error relative to
/// the largest value of each array.
void expect_the_definition(OpHarness& harness, const Case& c, double tolerance) {
  const std::vector<float> y = copied(harness.forward());
  harness.backward();
  const Reference expected(harness.values("x"), OpHarness::output_gradient(y.size()), harness.values("norm/gamma"),
                           harness.values("norm/beta"), c.params.epsilon);
  expect_all_near(y, expected.y, tolerance);
  expect_all_near(harness.gradient("x"), expected.dx, tolerance);
  expect_all_near(harness.gradient("norm/gamma"), expected.dgamma, tolerance);
  expect_all_near(harness.gradient("norm/beta"), expected.dbeta, tolerance);
}

/// Returns y, dx, dgamma and dbeta.
std::vector<std::vector<float>> results_of(OpHarness& harness) {
  std::vector<std::vector<float>> results{copied(harness.forward())};
  harness.backward();
  for (const char* name : {"x", "norm/gamma", "norm/beta"}) results.push_back(copied(harness.gradient(name)));
  return results;
}

class LayerNorm : public ::testing::TestWithParam<Case> {
 protected:
  LayerNorm() : harness_(GetParam().shape[0], GetParam().threads) { build(harness_, GetParam()); }
  OpHarness harness_;
};

TEST_P(LayerNorm, EqualsTheDefinitionForwardAndBackward) { expect_the_definition(harness_, GetParam(), 3e-6); }

TEST_P(LayerNorm, GradientsMatchFiniteDifferences) { harness_.expect_gradients_match_differences(5e-3, 1e-2, 20); }

INSTANTIATE_TEST_SUITE_P(Sizes, LayerNorm,
                         ::testing::Values(Case{{1, 1}}, Case{{4, 2}, 1, {.epsilon = 0.5f}}, Case{{5, 3}},
                                           Case{{7, 3, 15}}, Case{{3, 2, 5, 16}}, Case{{2, 5, 17}, 2},
                                           Case{{9, 5, 3, 33}, 2}, Case{{3, 197, 64}, 2}, Case{{2, 7, 7, 96}, 3},
                                           Case{{11, 13, 100}, 3}, Case{{130, 3, 48}, 2}, Case{{2, 3, 1500}},
                                           Case{{5, 2, 2, 768}, 2}, Case{{3, 3, 40}, 1, {.epsilon = 0.5f}}));

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  const Case c{.shape = {9, 5, 96}};
  OpHarness harness(9);
  build(harness, c);
  for (float& x : harness.values("x")) x = 1000.0f + 0.01f * x;
  expect_the_definition(harness, c, 3e-6);
}

TEST(LayerNorm, BearsAnOutlierInTheFirstChannel) {
  const Case c{.shape = {9, 64}};
  OpHarness harness(9);
  build(harness, c);
  for (std::size_t row = 0; row < 9; ++row) harness.values("x")[row * 64] = 3e4f;
  expect_the_definition(harness, c, 3e-6);
}

TEST(LayerNorm, AConstantRowBecomesTheShift) {
  OpHarness harness(3);
  build(harness, {.shape = {3, 7, 30}});
  std::ranges::fill(harness.values("x"), 0.1f);
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], harness.values("norm/beta")[i % 30], 1e-4) << i;
}

/// Each row is constant, with values of 1e10 or more. The rounding error of its mean is far larger than epsilon.
TEST(LayerNorm, ALargeConstantRowIsFinite) {
  OpHarness harness(100);
  build(harness, {.shape = {100, 30}});
  const auto x = harness.values("x");
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e10f * (1.0f + 0.01f * static_cast<float>(i / 30));
  for (const float y : harness.forward()) ASSERT_TRUE(std::isfinite(y));
}

TEST(LayerNorm, DoesAsPyTorchInTraining) {
  OpHarness harness(4, 2);
  build(harness, {.shape = {4, 3, 2, 21}});
  for (const char* name : {"gamma", "beta"}) {
    harness.set(std::string("norm/") + name, of_pytorch(std::string("layer_norm/") + name));
  }
  harness.set("x", of_pytorch("layer_norm/x"));
  expect_as_pytorch(harness.forward(), "layer_norm/y", 1e-6);
}

/// The tests above compare the op's gradients with the gradients of Reference. This test compares the gradients of
/// Reference with the gradients of PyTorch.
TEST(LayerNorm, ItsReferenceHasPyTorchsGradients) {
  const std::vector<float> x = of_pytorch("layer_norm/x"), dy = of_pytorch("layer_norm/dy");
  const Reference expected(x, dy, of_pytorch("layer_norm/gamma"), of_pytorch("layer_norm/beta"), 1e-6f);
  const auto as_floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  expect_as_pytorch(as_floats(expected.dx), "layer_norm/dx", 1e-6);
  expect_as_pytorch(as_floats(expected.dgamma), "layer_norm/dgamma", 1e-6);
  expect_as_pytorch(as_floats(expected.dbeta), "layer_norm/dbeta", 1e-6);
}

TEST(LayerNorm, DoesNotDependOnTheThreadCount) {
  for (const std::int64_t channels : {24, 33, 96}) {
    std::vector<std::vector<float>> expected;
    for (const int threads : {1, 2, 3, 7}) {
      OpHarness harness(61, threads);
      build(harness, {.shape = {61, 7, 9, channels}});
      const std::vector<std::vector<float>> found = results_of(harness);
      if (threads == 1) expected = found;
      EXPECT_EQ(found, expected) << threads;
    }
  }
}

TEST(LayerNorm, BearsMoreThreadsThanItWasBuiltWith) {
  OpHarness harness(64, 1);
  build(harness, {.shape = {64, 12, 12, 64}});
  const std::vector<std::vector<float>> expected = results_of(harness);
  omp_set_num_threads(4);
  EXPECT_EQ(results_of(harness), expected);
}

TEST(LayerNorm, ASampleDoesNotDependOnTheOthers) {
  constexpr std::size_t size = 3 * 33;
  OpHarness several(5), alone(1);
  build(several, {.shape = {5, 3, 33}});
  build(alone, {.shape = {1, 3, 33}});
  for (const char* name : {"norm/gamma", "norm/beta"}) alone.set(name, several.values(name));
  const std::vector<float> y = copied(several.forward());
  for (std::size_t sample = 0; sample < 5; ++sample) {
    alone.set("x", several.values("x").subspan(sample * size, size));
    EXPECT_TRUE(std::ranges::equal(alone.forward(), std::span(y).subspan(sample * size, size))) << sample;
  }
}

/// The op is in the middle of a section of ops that processes the batch in tiles. The addresses of the tiles are not
/// aligned.
TEST(LayerNorm, TilesOfTheBatchGiveTheSameBits) {
  constexpr std::int64_t batch = 29;
  std::vector<float> y, dx, dgamma;
  for (const bool is_tiled : {false, true}) {
    OpHarness harness(batch, 2);
    Graph& graph = harness.graph();
    const Value x = gelu(graph, "gelu", harness.input("x", {batch, 13, 31, 99}));
    const Value z = silu(graph, "silu", layer_norm(graph, "norm", x));
    if (!is_tiled) {
      std::vector<Graph::Node> nodes = graph.nodes();
      for (Graph::Node& node : nodes) node.traits.samples_are_independent = false;
      graph.replace_nodes(std::move(nodes));
    }
    harness.finish(z);
    EXPECT_EQ(plan_tiling(graph, 2)[1].tiles > 1, is_tiled);
    const std::vector<float> found = copied(harness.forward());
    harness.backward();
    if (!is_tiled) {
      y = found;
      dx = copied(harness.gradient("x"));
      dgamma = copied(harness.gradient("norm/gamma"));
    }
    EXPECT_EQ(found, y);
    EXPECT_EQ(copied(harness.gradient("x")), dx);
    expect_near(copied(harness.gradient("norm/gamma")), dgamma, 1e-4);  // this gradient is a sum over the tiles
  }
}

TEST(LayerNorm, NanAndInfinityFillTheirRowAndTheGradientsOfTheVariables) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    OpHarness harness(4);
    build(harness, {.shape = {4, 5, 19}});
    harness.values("x")[6 * 19 + 18] = bad;
    const auto y = harness.forward();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i / 19 != 6) << i;
    harness.backward();
    const auto dx = harness.gradient("x");
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(std::isfinite(dx[i]), i / 19 != 6) << i;
    for (const float value : harness.gradient("norm/gamma")) EXPECT_FALSE(std::isfinite(value));
  }
}

TEST(LayerNorm, HasGradientsIfNobodyWantsThatOfItsInput) {
  const NoiseBatch samples(0, 20, 12);
  OpHarness harness(20);
  harness.step().batch = samples.batch();
  const Value x = image_input(harness.graph(), "x", {.sample = {2, 2, 3}});
  harness.finish(layer_norm(harness.graph(), "norm", x));
  const std::size_t count = harness.forward().size();
  harness.backward();
  std::vector<float> pixels;
  for (const std::uint8_t* image : samples.batch().images) pixels.insert(pixels.end(), image, image + 12);
  const Reference expected(pixels, OpHarness::output_gradient(count), harness.values("norm/gamma"),
                           harness.values("norm/beta"), 1e-6f);
  expect_all_near(harness.gradient("norm/gamma"), expected.dgamma, 3e-6);
  expect_all_near(harness.gradient("norm/beta"), expected.dbeta, 3e-6);
}

TEST(LayerNorm, HasTheGradientOfItsInputIfNobodyWantsThoseOfItsVariables) {
  OpHarness harness(2);
  build(harness, {.shape = {2, 3, 20}});
  const std::vector<float> expected = results_of(harness)[1];
  CpuDevice device(1);
  std::vector<float> x = copied(harness.values("x")), y(x.size()), dx(x.size());
  std::vector<float> dy = OpHarness::output_gradient(x.size());
  std::vector<float> gamma = copied(harness.values("norm/gamma")), beta = copied(harness.values("norm/beta"));
  const Shape shape{2, 3, 20};
  const auto op = make_layer_norm_cpu({}, {.device = &device, .training = true},
                                      {.inputs = {{x.data(), shape}},
                                       .outputs = {{y.data(), shape}},
                                       .input_gradients = {{dx.data(), shape}},
                                       .output_gradients = {{dy.data(), shape}},
                                       .parameters = {{gamma.data(), {20}}, {beta.data(), {20}}},
                                       .parameter_gradients = {{}, {}}});
  op->forward(device.stream());
  op->backward(device.stream());
  EXPECT_EQ(dx, expected);
}

TEST(LayerNorm, EvaluatesAsItTrains) {
  OpHarness harness(7, 2);
  build(harness, {.shape = {7, 5, 40}});
  const std::vector<float> y = copied(harness.forward());
  EXPECT_EQ(copied(harness.evaluate()), y);
}

TEST(LayerNorm, ItsVariablesHaveTheirNamesAndValues) {
  Graph graph(4);
  const Value x = graph.add_op({.name = "x", .definition = nullptr, .inputs = {}}, {4, 3, 5});
  EXPECT_EQ(graph.shape(layer_norm(graph, "a", x)), (Shape{4, 3, 5}));
  ASSERT_EQ(graph.parameters().size(), 2);
  for (int i = 0; i < 2; ++i) {
    const ParameterSpec& spec = graph.parameters()[i];
    EXPECT_EQ(spec.name, i == 0 ? "a/gamma" : "a/beta");
    EXPECT_EQ(initial_values(spec, 1), std::vector<float>(5, i == 0 ? 1.0f : 0.0f));
  }
}

TEST(LayerNorm, RefusesAnEpsilonOfZero) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3});
  EXPECT_THROW(layer_norm(harness.graph(), "norm", x, {.epsilon = 0.0f}), Error);
}

TEST(LayerNorm, RefusesAnInputWithoutChannels) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2});
  EXPECT_THROW(layer_norm(harness.graph(), "norm", x), Error);
}

}  // namespace
}  // namespace carillon::testing
