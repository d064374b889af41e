#include "kernels/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scale_input/scale_input.h"
#include "src/graph/passes.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

struct Case {
  Shape shape;
  BatchNormParams params = {};
  ActivationKind activation = ActivationKind::none;
  int threads = 1;
  bool has_addend = false;
};

double activation(ActivationKind kind, double z) {
  if (kind == ActivationKind::relu) return std::max(z, 0.0);
  if (kind == ActivationKind::gelu) return z * std::erfc(-z / std::sqrt(2.0)) / 2.0;
  return kind == ActivationKind::silu ? z / (1.0 + std::exp(-z)) : z;
}

double derivative(ActivationKind kind, double z) {
  if (kind == ActivationKind::none) return 1.0;
  if (kind == ActivationKind::relu) return z > 0.0 ? 1.0 : 0.0;
  constexpr double h = 1e-5;
  return (activation(kind, z + h) - activation(kind, z - h)) / (2.0 * h);
}

/// Running statistics of a frozen batch norm.
struct Statistics {
  std::vector<float> mean, variance;
};

/// The definition in double, of training. `addend`: empty if there is none. `moving`: of a frozen batch norm.
struct Reference {
  std::size_t channels, rows;
  std::vector<double> mean, variance, y, dx, daddend, dgamma, dbeta;

  Reference(std::span<const float> x, std::span<const float> dy, std::span<const float> gamma,
            std::span<const float> beta, const BatchNormForm& form, const Statistics& moving = {},
            std::span<const float> addend = {})
      : channels(beta.size()),
        rows(x.size() / channels),
        mean(channels),
        variance(channels),
        y(x.size()),
        dx(x.size()),
        dgamma(channels),
        dbeta(channels) {
    for (std::size_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / static_cast<double>(rows);
    for (std::size_t i = 0; i < x.size(); ++i) {
      variance[i % channels] += std::pow(x[i] - mean[i % channels], 2) / static_cast<double>(rows);
    }
    if (form.frozen) {
      mean.assign(moving.mean.begin(), moving.mean.end());
      variance.assign(moving.variance.begin(), moving.variance.end());
    }
    const auto inverse = [&](std::size_t i) {
      return 1.0 / std::sqrt(variance[i % channels] + static_cast<double>(form.params.epsilon));
    };
    const auto scale = [&](std::size_t i) { return gamma.empty() ? 1.0 : gamma[i % channels]; };
    const auto xhat = [&](std::size_t i) { return (x[i] - mean[i % channels]) * inverse(i); };
    const auto z = [&](std::size_t i) {
      return scale(i) * xhat(i) + beta[i % channels] + (addend.empty() ? 0.0 : addend[i]);
    };
    const auto dz = [&](std::size_t i) { return dy[i] * derivative(form.activation, z(i)); };
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = activation(form.activation, z(i));
      dgamma[i % channels] += dz(i) * xhat(i);
      dbeta[i % channels] += dz(i);
      daddend.push_back(dz(i));
    }
    const double of_batch = form.frozen ? 0.0 : 1.0 / static_cast<double>(rows);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double moved = dbeta[i % channels] + xhat(i) * dgamma[i % channels];
      dx[i] = scale(i) * inverse(i) * (dz(i) - of_batch * moved);
    }
  }
};

/// A batch norm on `x`, the addition of `addend` if there is one, and an activation or none.
Value add_ops(OpHarness& harness, const Case& c) {
  Graph& graph = harness.graph();
  const Value x = harness.input("x", c.shape);
  if (!c.has_addend) return activated(c.activation, graph, batch_norm(graph, "norm", x, c.params));
  const Value addend = harness.input("addend", c.shape), y = batch_norm(graph, "norm", x, c.params);
  return activated(c.activation, graph, add(graph, "sum", y, addend));
}

void build(OpHarness& harness, const Case& c) { harness.finish(add_ops(harness, c)); }

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

/// A frozen one, with statistics that are not those of its batches.
Statistics build_frozen(OpHarness& harness, const Case& c) {
  const Value y = add_ops(harness, c);
  EXPECT_EQ(freeze_statistics(harness.graph(), [](const Graph::Node&) { return true; }), 1);
  harness.finish(y);
  const std::size_t channels = static_cast<std::size_t>(c.shape.extents().back());
  std::ranges::copy(random_values(channels, 77), harness.state("norm/moving_mean").begin());
  std::ranges::copy(random_values(channels, 78, 0.5f, 3.0f), harness.state("norm/moving_variance").begin());
  return {copied(harness.state("norm/moving_mean")), copied(harness.state("norm/moving_variance"))};
}

void expect_all_near(std::span<const float> found, const std::vector<double>& expected, double tolerance) {
  double scale = 0.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance * scale) << i;
}

/// Forward and backward as the definition, each array to `tolerance` of its largest value. `frozen`: null if it is not.
void expect_the_definition(OpHarness& harness, const Case& c, double tolerance, const Statistics* frozen = nullptr) {
  const std::vector<float> y(harness.forward().begin(), harness.forward().end());
  harness.backward();
  const std::span<const float> gamma = c.params.trains_scale ? harness.values("norm/gamma") : std::span<float>{};
  const Reference expected(
      harness.values("x"), OpHarness::output_gradient(y.size()), gamma, harness.values("norm/beta"),
      {.params = c.params, .activation = c.activation, .frozen = frozen != nullptr},
      frozen != nullptr ? *frozen : Statistics{}, c.has_addend ? harness.values("addend") : std::span<float>{});
  expect_all_near(y, expected.y, tolerance);
  expect_all_near(harness.gradient("x"), expected.dx, tolerance);
  if (c.has_addend) expect_all_near(harness.gradient("addend"), expected.daddend, tolerance);
  if (c.params.trains_scale) expect_all_near(harness.gradient("norm/gamma"), expected.dgamma, tolerance);
  expect_all_near(harness.gradient("norm/beta"), expected.dbeta, tolerance);
}

class BatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  BatchNorm() : harness_(GetParam().shape[0], GetParam().threads) { build(harness_, GetParam()); }
  OpHarness harness_;
};

TEST_P(BatchNorm, EqualsTheDefinitionForwardAndBackward) { expect_the_definition(harness_, GetParam(), 2e-6); }

TEST_P(BatchNorm, GradientsMatchFiniteDifferences) {
  if (GetParam().activation == ActivationKind::relu) return;  // the kink
  harness_.expect_gradients_match_differences(1e-2, 1e-2, 20);
}

class FrozenBatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  FrozenBatchNorm() : harness_(GetParam().shape[0], GetParam().threads), moving_(build_frozen(harness_, GetParam())) {}
  OpHarness harness_;
  Statistics moving_;
};

TEST_P(FrozenBatchNorm, EqualsTheDefinitionForwardAndBackward) {
  expect_the_definition(harness_, GetParam(), 2e-6, &moving_);
}

TEST_P(FrozenBatchNorm, GradientsMatchFiniteDifferences) {
  if (GetParam().activation == ActivationKind::relu) return;  // the kink
  harness_.expect_gradients_match_differences(1e-2, 1e-2, 20);
}

TEST_P(FrozenBatchNorm, KeepsItsStatisticsAndTrainsAsItEvaluates) {
  const std::vector<float> y = copied(harness_.forward());
  harness_.backward();
  EXPECT_TRUE(equal_bits(copied(harness_.state("norm/moving_mean")), moving_.mean));
  EXPECT_TRUE(equal_bits(copied(harness_.state("norm/moving_variance")), moving_.variance));
  EXPECT_TRUE(equal_bits(copied(harness_.evaluate()), y));
}

constexpr BatchNormParams unscaled{.epsilon = 1e-12f, .momentum = 0.4f, .trains_scale = false};

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

INSTANTIATE_TEST_SUITE_P(Sizes, FrozenBatchNorm,
                         ::testing::Values(Case{{4, 1}}, Case{{5, 3}}, Case{{1, 1, 1, 3}},
                                           Case{{7, 3, 3, 5}, {}, ActivationKind::relu},
                                           Case{{8, 4, 4, 3}, {}, ActivationKind::relu, 2},
                                           Case{{33, 129}, {}, ActivationKind::silu},
                                           Case{{64, 9, 5, 33}, unscaled, ActivationKind::relu, 3},
                                           Case{{9, 3, 5, 64}, unscaled, ActivationKind::gelu, 2},
                                           Case{{64, 9, 5, 33}, {}, ActivationKind::gelu, 3},
                                           Case{{8, 4, 4, 3}, {}, ActivationKind::relu, 2, true},
                                           Case{{33, 129}, {}, ActivationKind::none, 1, true}));

TEST(FrozenBatchNorm, DoesAsPyTorchInEvaluationMode) {
  for (const auto& [kind, name] : {std::pair(ActivationKind::none, "none"), std::pair(ActivationKind::relu, "relu"),
                                   std::pair(ActivationKind::gelu, "gelu")}) {
    const std::string prefix = std::string("batch_norm/frozen_") + name + "/";
    OpHarness harness(4);
    build_frozen(harness, {.shape = {4, 3, 2, 5}, .activation = kind});
    const auto set_state = [&](const char* state, const char* array) {
      std::ranges::copy(of_pytorch(array), harness.state(state).begin());
    };
    set_state("norm/moving_mean", "batch_norm/moving_mean");
    set_state("norm/moving_variance", "batch_norm/moving_variance");
    harness.set("norm/gamma", of_pytorch("batch_norm/gamma"));
    harness.set("norm/beta", of_pytorch("batch_norm/beta"));
    harness.set("x", of_pytorch("batch_norm/x2"));
    expect_as_pytorch(harness.forward(), prefix + "y", 1e-6);
    // The op's gradients are the reference's above; here the reference's are PyTorch's.
    const Reference expected(of_pytorch("batch_norm/x2"), of_pytorch("batch_norm/dy"), of_pytorch("batch_norm/gamma"),
                             of_pytorch("batch_norm/beta"), {.activation = kind, .frozen = true},
                             {of_pytorch("batch_norm/moving_mean"), of_pytorch("batch_norm/moving_variance")});
    const auto as_floats = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    expect_as_pytorch(as_floats(expected.dx), prefix + "dx", 1e-6);
    expect_as_pytorch(as_floats(expected.dgamma), prefix + "dgamma", 1e-6);
    expect_as_pytorch(as_floats(expected.dbeta), prefix + "dbeta", 1e-6);
  }
}

TEST(BatchNorm, KeepsItsDigitsFarFromZero) {
  for (const ActivationKind kind : {ActivationKind::none, ActivationKind::relu}) {
    const Case c{.shape = {64, 5, 5, 6}, .activation = kind};
    OpHarness harness(64);
    build(harness, c);
    for (float& x : harness.values("x")) x = 1000.0f + 0.01f * x;
    expect_the_definition(harness, c, 3e-6);
  }
}

/// The sums are about a block's first row: here it is far from all others.
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
  expect_as_pytorch(harness.state("norm/moving_mean"), "batch_norm/moving_mean", 1e-6);  // as before
}

/// The op's gradients are the reference's above; here the reference's are PyTorch's.
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
    EXPECT_EQ(harness.graph().nodes().size(), 3);  // with input and objective
  }
}

TEST(BatchNorm, FusesTheFollowingSumAndItsRelu) {
  for (const ActivationKind kind : {ActivationKind::none, ActivationKind::relu}) {
    OpHarness harness(4);
    build(harness, {.shape = {4, 3}, .activation = kind, .has_addend = true});
    EXPECT_EQ(harness.graph().nodes().size(), 4);  // with inputs and objective
  }
}

TEST(BatchNorm, ASumWithPixelsHasGradientsWhereNobodyWantsThoseOfThePixels) {
  const NoiseBatch samples(0, 20, 12);
  OpHarness harness(20);
  harness.step().batch = samples.batch();
  const Value pixels = scale_input(harness.graph(), "pixels", {.sample = {2, 2, 3}});
  const Value x = harness.input("x", {20, 2, 2, 3}), y = batch_norm(harness.graph(), "norm", x);
  harness.finish(relu(harness.graph(), "relu", add(harness.graph(), "sum", pixels, y)));
  EXPECT_EQ(harness.graph().nodes().size(), 4);  // with inputs and objective
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
  const Value x = scale_input(harness.graph(), "x", {.sample = {2, 2, 3}});
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
