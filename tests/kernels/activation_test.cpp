#include "kernels/activation/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/activation/activation_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

struct Case {
  const char* name;
  ActivationKind kind;
  Value (*add)(Graph&, const std::string&, Value);
  double (*value)(double);
  double (*derivative)(double);
};

double phi(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double Phi(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double sigma(double x) { return 1 / (1 + std::exp(-x)); }

constexpr Case gelu_case{"gelu", ActivationKind::gelu, gelu, [](double x) { return x * Phi(x); },
                         [](double x) { return Phi(x) + x * phi(x); }};
constexpr Case silu_case{"silu", ActivationKind::silu, silu, [](double x) { return x * sigma(x); },
                         [](double x) { return sigma(x) * (1 + x * sigma(-x)); }};

class Activation : public ::testing::TestWithParam<Case> {
 protected:
  void build(OpHarness& harness, const Shape& shape) {
    harness.finish(GetParam().add(harness.graph(), "op", harness.input("x", shape)));
  }
};

/// Relatively, so also where y is nearly 0. The derivative has a zero, near which it is right absolutely.
TEST_P(Activation, EqualsTheDefinitionToAFewRoundings) {
  const std::int64_t count = 100001;
  OpHarness harness(1);
  build(harness, {1, count});
  for (std::int64_t i = 0; i < count; ++i)
    harness.values("x")[i] = -12.5f + 25.0f / (count - 1) * static_cast<float>(i);
  const auto y = harness.forward();
  harness.backward();
  const auto x = harness.values("x");
  const std::vector<float> dy = OpHarness::output_gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = GetParam().value(x[i]), derivative = GetParam().derivative(x[i]);
    ASSERT_NEAR(y[i], value, 4e-7 * std::abs(value)) << x[i];
    const double far = std::abs(x[i]) > 3.0 ? std::abs(derivative) : 1.0;
    ASSERT_NEAR(harness.gradient("x")[i], dy[i] * derivative, 1e-6 * std::abs(dy[i]) * far) << x[i];
  }
}

TEST_P(Activation, GradientsMatchFiniteDifferences) {
  for (const std::int64_t count : {1, 17}) {
    OpHarness harness(3);
    build(harness, {3, count});
    harness.expect_gradients_match_differences(1e-3, 2e-3);
  }
}

TEST_P(Activation, DoesAsPyTorch) {
  const std::string name = GetParam().name;
  const std::vector<float> x = of_pytorch(name + "/x"), dy = of_pytorch(name + "/dy");
  OpHarness harness(1);
  build(harness, {1, static_cast<std::int64_t>(x.size())});
  harness.set("x", x);
  expect_as_pytorch(harness.forward(), name + "/y", 2e-7);
  harness.backward();
  const std::vector<float> own = OpHarness::output_gradient(x.size());
  std::vector<float> dx(harness.gradient("x").begin(), harness.gradient("x").end());
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= dy[i] / own[i];  // to PyTorch's gradient of y
  expect_as_pytorch(dx, name + "/dx", 1e-6);
}

TEST_P(Activation, GoesToItsLimits) {
  OpHarness harness(1);
  build(harness, {1, 8});
  harness.set("x", std::vector<float>{0.0f, -0.0f, 1e30f, -1e30f, INFINITY, NAN, -90.0f, 90.0f});
  const auto y = harness.forward();
  const float expected[] = {0.0f, 0.0f, 1e30f, 0.0f, INFINITY, NAN, 0.0f, 90.0f};
  harness.backward();
  const float slopes[] = {0.5f, 0.5f, 1.0f, 0.0f, NAN, NAN, 0.0f, 1.0f};
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_THAT(y[i], ::testing::NanSensitiveFloatEq(expected[i])) << i;
    if (std::isnan(slopes[i])) continue;
    EXPECT_FLOAT_EQ(harness.gradient("x")[i], dy[i] * slopes[i]) << i;
  }
}

TEST_P(Activation, DoesNotDependOnTheThreadCount) {
  std::vector<float> expected;
  for (const int threads : {1, 3}) {
    OpHarness harness(7, threads);
    build(harness, {7, 9001});
    harness.forward();
    harness.backward();
    const std::vector<float> dx(harness.gradient("x").begin(), harness.gradient("x").end());
    if (threads == 1) expected = dx;
    EXPECT_TRUE(equal_bits(dx, expected));
  }
}

/// Within `tolerance` of the definition, absolutely below 1.
template <typename T, int n>
void expect_kernels_as_the_definition(const Case& c, double tolerance) {
  const std::vector<T> x = rounded<T>(random_values(24 * n, 1, -5.0f, 5.0f)), dy = rounded<T>(random_values(24 * n, 2));
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(x.size()), dx = y;
    with_activation(c.kind, [&]<typename A>(A) {
      emulate(ForEachElement{ActivationForward<T, n, A>{x.data(), y.data()}, 24}, order);
      emulate(ForEachElement{ActivationBackward<T, n, A>{x.data(), dy.data(), dx.data()}, 24}, order);
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = c.value(to_float(x[i])), gradient = to_float(dy[i]) * c.derivative(to_float(x[i]));
      ASSERT_NEAR(to_float(y[i]), value, tolerance * std::fmax(1.0, std::abs(value))) << i;
      ASSERT_NEAR(to_float(dx[i]), gradient, tolerance) << i;
    }
  }
}

TEST_P(Activation, KernelsEqualTheDefinition) {
  expect_kernels_as_the_definition<float, 4>(GetParam(), 4e-7);
  expect_kernels_as_the_definition<float, 1>(GetParam(), 4e-7);
  expect_kernels_as_the_definition<Bf16, 8>(GetParam(), 4e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Activation, ::testing::Values(gelu_case, silu_case),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace carillon::testing
