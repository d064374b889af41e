// batch_norm computed in double by its definition, and helpers for the tests of batch_norm.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/elementwise/elementwise.h"
#include "src/graph/passes.h"
#include "tests/support/op_harness.h"

namespace carillon::testing::batch_norm_reference {

struct Case {
  Shape shape;
  BatchNormParams params = {};
  ActivationKind activation = ActivationKind::none;
  int threads = 1;
  bool has_addend = false;
};

inline double activation(ActivationKind kind, double z) {
  if (kind == ActivationKind::relu) return std::max(z, 0.0);
  if (kind == ActivationKind::gelu) return z * std::erfc(-z / std::sqrt(2.0)) / 2.0;
  return kind == ActivationKind::silu ? z / (1.0 + std::exp(-z)) : z;
}

inline double derivative(ActivationKind kind, double z) {
  if (kind == ActivationKind::none) return 1.0;
  if (kind == ActivationKind::relu) return z > 0.0 ? 1.0 : 0.0;
  constexpr double h = 1e-5;
  return (activation(kind, z + h) - activation(kind, z - h)) / (2.0 * h);
}

/// Running statistics of a frozen batch norm.
struct Statistics {
  std::vector<float> mean, variance;
};

/// Computes the op with its addend and activation in double, by the definition. `addend`: empty if the case has none.
/// `moving`: the running statistics, which are used only if the batch norm is frozen (form.frozen). Otherwise Reference
/// uses the statistics of the batch.
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

/// Adds batch_norm of `x` to the graph. If the case has an addend or an activation, also adds these ops. Returns the
/// last op's value.
inline Value add_ops(OpHarness& harness, const Case& c) {
  Graph& graph = harness.graph();
  const Value x = harness.input("x", c.shape);
  if (!c.has_addend) return activated(c.activation, graph, batch_norm(graph, "norm", x, c.params));
  const Value addend = harness.input("addend", c.shape), y = batch_norm(graph, "norm", x, c.params);
  return activated(c.activation, graph, add(graph, "sum", y, addend));
}

inline void build(OpHarness& harness, const Case& c) { harness.finish(add_ops(harness, c)); }

inline std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Builds a graph with a frozen batch norm, and returns its statistics: random numbers, unlike the statistics of the
/// batch.
inline Statistics build_frozen(OpHarness& harness, const Case& c) {
  const Value y = add_ops(harness, c);
  EXPECT_EQ(freeze_statistics(harness.graph(), [](const Graph::Node&) { return true; }), 1);
  harness.finish(y);
  const std::size_t channels = static_cast<std::size_t>(c.shape.extents().back());
  std::ranges::copy(random_values(channels, 77), harness.state("norm/moving_mean").begin());
  std::ranges::copy(random_values(channels, 78, 0.5f, 3.0f), harness.state("norm/moving_variance").begin());
  return {copied(harness.state("norm/moving_mean")), copied(harness.state("norm/moving_variance"))};
}

inline void expect_all_near(std::span<const float> found, const std::vector<double>& expected, double tolerance) {
  double scale = 0.0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance * scale) << i;
}

/// Runs the forward and backward pass, and compares the results with Reference. `tolerance`: allowed error relative to
/// the largest value of each array. `frozen`: the statistics of a frozen batch norm; null if it is not frozen.
inline void expect_the_definition(OpHarness& harness, const Case& c, double tolerance,
                                  const Statistics* frozen = nullptr) {
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

inline constexpr BatchNormParams unscaled{.epsilon = 1e-12f, .momentum = 0.4f, .trains_scale = false};

}  // namespace carillon::testing::batch_norm_reference
