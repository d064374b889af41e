#include "kernels/elementwise/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

/// Tests a ReLU that no pass fuses into another op, on a batch of 3 samples.
class ReluOp : public ::testing::TestWithParam<int> {
 protected:
  ReluOp() {
    const Value x = harness_.input("x", {3, GetParam()});
    harness_.finish(relu(harness_.graph(), "relu", x));
  }
  OpHarness harness_{3, 2};
};

TEST_P(ReluOp, EqualsTheDefinitionBothWays) {
  std::vector<float> x(harness_.values("x").begin(), harness_.values("x").end());
  x[0] = 0.0f;  // at 0, the gradient is 0
  harness_.set("x", x);
  const auto y = harness_.forward();
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness_.backward();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], std::max(x[i], 0.0f)) << i;
    EXPECT_EQ(harness_.gradient("x")[i], x[i] > 0.0f ? dy[i] : 0.0f) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReluOp, ::testing::Values(1, 17, 40000));

TEST(Relu, ANanStaysOne) {
  OpHarness harness(1);
  harness.finish(relu(harness.graph(), "relu", harness.input("x", {1, 2})));
  harness.set("x", std::vector<float>{NAN, -1.0f});
  const auto y = harness.forward();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0f);
}

TEST(Scale, MultipliesValuesAndGradients) {
  OpHarness harness(3, 2);
  harness.finish(scale(harness.graph(), "scale", harness.input("x", {3, 50000}), 0.125f));
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 0.125f * harness.values("x")[i]) << i;
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness.backward();
  for (std::size_t i = 0; i < dy.size(); ++i) ASSERT_EQ(harness.gradient("x")[i], 0.125f * dy[i]) << i;
}

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

TEST(Gelu, IsNearTheDefinitionWhereItIsRoundedToBf16) {
  for (float x = -12.0f; x <= 12.0f; x += 1.0f / 512.0f) {
    ASSERT_NEAR(GeluForBf16::value(x), x * Phi(x), 8e-6 * std::max(1.0, std::abs(x) / 5.0)) << x;
    ASSERT_NEAR(GeluForBf16::gradient(x, 1.0f), Phi(x) + x * phi(x), 1.5e-5) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NEAR(GeluForBf16::value(1e30f), 1e30, 2e24);
  EXPECT_EQ(GeluForBf16::value(-1e30f), 0.0f);
  EXPECT_EQ(GeluForBf16::value(infinity), infinity);
  EXPECT_TRUE(std::isnan(GeluForBf16::value(nan)));
  EXPECT_TRUE(std::isnan(GeluForBf16::gradient(nan, 1.0f)));
}

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

/// The tolerance of y is relative, even near 0. The tolerance of the derivative is absolute for |x| <= 3, because the
/// derivative may be 0 there. For larger |x|, the tolerance of the derivative is relative.
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
  // The backward pass used the gradient `own` of y, but PyTorch used dy. Therefore this scales dx.
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= dy[i] / own[i];
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

/// Compares the function's CUDA kernels with its definition. `tolerance` is relative for values above 1, and absolute
/// for all other values.
template <typename T, int n>
void expect_kernels_as_the_definition(const Case& c, double tolerance) {
  const std::vector<T> x = rounded<T>(random_values(24 * n, 1, -5.0f, 5.0f)), dy = rounded<T>(random_values(24 * n, 2));
  std::vector<T> y = filled<T>(x.size()), dx = y;
  with_activation<T>(c.kind, [&]<typename A>(A) {
    emulate(ForEachElement{MapPack<T, n, ValueOf<A>>{{}, x.data(), nullptr, y.data()}, 24});
    emulate(ForEachElement{MapPack<T, n, GradientOf<A>>{{}, x.data(), dy.data(), dx.data()}, 24});
  });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = c.value(to_float(x[i])), gradient = to_float(dy[i]) * c.derivative(to_float(x[i]));
    ASSERT_NEAR(to_float(y[i]), value, tolerance * std::fmax(1.0, std::abs(value))) << i;
    ASSERT_NEAR(to_float(dx[i]), gradient, tolerance) << i;
  }
}

TEST_P(Activation, KernelsEqualTheDefinition) {
  expect_kernels_as_the_definition<float, 4>(GetParam(), 4e-7);
  expect_kernels_as_the_definition<float, 1>(GetParam(), 4e-7);
  expect_kernels_as_the_definition<Bf16, 8>(GetParam(), 4e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Activation, ::testing::Values(gelu_case, silu_case),
                         [](const auto& which) { return which.param.name; });

/// A function that no pass fuses into another op, and the range of x in which the test compares it with its definition.
struct Function {
  const char* name;
  Value (*add)(Graph&, const std::string&, Value);
  double (*value)(double);
  double (*derivative)(double);
  float low, high;
  double absolute_error = 1e-37;
};

double hard_sigma(double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }

constexpr Function functions[] = {
    {"sigmoid", sigmoid, sigma, [](double x) { return sigma(x) * sigma(-x); }, -80.0f, 8.0f},
    {"hard_sigmoid", [](Graph& graph, const std::string& name, Value x) { return hard_sigmoid(graph, name, x); },
     hard_sigma, [](double x) { return std::abs(x) < 3.0 ? 1.0 / 6.0 : 0.0; }, -5.0f, 5.1f, 1e-7},
    {"hard_swish", hard_swish, [](double x) { return x * hard_sigma(x); },
     [](double x) { return x < -3.0  ? 0.0
                           : x > 3.0 ? 1.0
                                     : x / 3 + 0.5; }, -5.0f, 5.1f, 3e-7},
    {"clip",
     [](Graph& graph, const std::string& name, Value x) {
       return clip(graph, name, x, {.least = -0.3f, .most = 6.0f});
     },
     [](double x) { return std::clamp(x, static_cast<double>(-0.3f), 6.0); },
     [](double x) { return x > -0.3f && x < 6.0 ? 1.0 : 0.0; }, -5.0f, 9.1f},
    {"leaky_relu", [](Graph& graph, const std::string& name, Value x) { return leaky_relu(graph, name, x); },
     [](double x) { return x > 0.0 ? x : static_cast<double>(0.01f) * x; },
     [](double x) { return x > 0.0 ? 1.0 : static_cast<double>(0.01f); }, -3.0f, 3.1f},
    {"tanh", tanh, [](double x) { return std::tanh(x); }, [](double x) { return 1.0 / std::cosh(x) / std::cosh(x); },
     -3.0f, 3.1f},
    {"exp", exp, [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }, -87.0f, 88.7f},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, [](double x) { return 0.5 / std::sqrt(x); }, 1e-4f, 100.0f},
    {"reciprocal", reciprocal, [](double x) { return 1.0 / x; }, [](double x) { return -1.0 / (x * x); }, 0.01f, 90.0f},
    {"erf", erf, [](double x) { return std::erf(x); },
     [](double x) { return 2.0 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }, -9.1f, 9.0f},
    {"shift", [](Graph& graph, const std::string& name, Value x) { return shift(graph, name, x, 0.625f); },
     [](double x) { return x + 0.625; }, [](double) { return 1.0; }, 0.0f, 9.0f}};

/// Many networks divide rows by their norm. The norm of a row of zeros has no derivative; 0 keeps the gradients finite.
TEST(SquareRoot, TheGradientAtZeroIsZero) {
  OpHarness harness(1, 2);
  harness.finish(sqrt(harness.graph(), "op", harness.input("x", {1, 3})));
  harness.set("x", std::vector{0.0f, 4.0f, 0.0f});
  harness.forward();
  harness.backward();
  const auto dx = harness.gradient("x");
  EXPECT_EQ(dx[0], 0.0f);
  EXPECT_NE(dx[1], 0.0f);
}

class ElementFunction : public ::testing::TestWithParam<Function> {
 protected:
  void build(OpHarness& harness, std::int64_t count) {
    harness.finish(GetParam().add(harness.graph(), "op", harness.input("x", {1, count})));
  }
};

/// Sigmoid and tanh compute their gradients from y. So the gradients have the absolute error of y.
TEST_P(ElementFunction, EqualsTheDefinitionToAFewRoundings) {
  constexpr std::int64_t count = 100003;
  const Function& function = GetParam();
  OpHarness harness(1, 2);
  build(harness, count);
  for (std::int64_t i = 0; i < count; ++i) {
    harness.values("x")[i] = function.low + (function.high - function.low) / count * static_cast<float>(i);
  }
  const auto y = harness.forward();
  for (std::size_t i = 0; i < count; ++i) {
    const double x = harness.values("x")[i], value = function.value(x);
    ASSERT_NEAR(y[i], value, 1e-6 * std::abs(value) + function.absolute_error) << x;
  }
  harness.backward();
  const std::vector<float> dy = OpHarness::output_gradient(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = harness.values("x")[i], derivative = function.derivative(x);
    ASSERT_NEAR(harness.gradient("x")[i], dy[i] * derivative, std::abs(dy[i]) * (1.5e-6 * std::abs(derivative) + 3e-7))
        << x;
  }
}

TEST_P(ElementFunction, GradientsMatchFiniteDifferences) {
  OpHarness harness(1);
  build(harness, 17);
  std::vector<float> x = random_values(17, 3, 0.5f, 2.5f);  // in this range, the functions have no kinks and no poles
  harness.set("x", x);
  harness.expect_gradients_match_differences(1e-3, 2e-3);
}

TEST_P(ElementFunction, ANanStaysOne) {
  OpHarness harness(1);
  build(harness, 19);
  harness.set("x", std::vector<float>(19, NAN));
  for (const float y : harness.forward()) EXPECT_TRUE(std::isnan(y));
}

INSTANTIATE_TEST_SUITE_P(All, ElementFunction, ::testing::ValuesIn(functions),
                         [](const auto& which) { return which.param.name; });

TEST(ElementFunctions, HaveTheirLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Sigmoid::value(-infinity), 0.0f);
  EXPECT_EQ(Sigmoid::value(infinity), 1.0f);
  EXPECT_EQ(Tanh::value(-infinity), -1.0f);
  EXPECT_EQ(Tanh::value(infinity), 1.0f);
  EXPECT_EQ(Erf::value(-infinity), -1.0f);
  EXPECT_EQ(Erf::value(infinity), 1.0f);
  EXPECT_EQ(Exp::value(-infinity), 0.0f);
  EXPECT_EQ(Exp::value(infinity), infinity);
  EXPECT_EQ(Exp::value(89.0f), infinity);
  EXPECT_EQ(Exp::value(0.0f), 1.0f);
  EXPECT_EQ(HardSwish::value(infinity), infinity);
  EXPECT_EQ(Sqrt::value(infinity), infinity);
  EXPECT_EQ(LeakyRelu{}.gradient(LeakyRelu{.slope = 0.0f}.value(-1.0f), 1.0f), 0.01f);
}

/// In bf16, the limit -0.3 is rounded. If y equals the rounded limit, the gradient must be 0.
TEST(Clip, PassesNoGradientAtALimitInBf16) {
  const auto rounded_clip = function_for<Bf16>(Clip{.least = -0.3f, .most = 0.3f});
  for (const float x : {-1.0f, 1.0f}) {
    const float y = to_float(to_bf16(rounded_clip.value(x)));
    EXPECT_EQ(y, to_float(to_bf16(0.3f * x)));
    EXPECT_EQ(rounded_clip.gradient(y, 1.0f), 0.0f);
  }
}

TEST(ElementFunctions, RefuseOtherSettings) {
  OpHarness harness(2);
  const Value x = harness.input("x", {2, 3});
  EXPECT_THROW(clip(harness.graph(), "clip", x, {.least = 1.0f, .most = 0.0f}), Error);
  EXPECT_THROW(clip(harness.graph(), "clip", x, {.least = NAN}), Error);
  EXPECT_THROW(leaky_relu(harness.graph(), "leaky", x, {.slope = -0.1f}), Error);
}

/// Checks that the kernel computes y = f(a) or y = f(a, b), rounded to T, in both thread orders. Repeats the check with
/// y in the memory of b, or of a if f has one argument.
template <typename T, int n, typename F>
void expect_kernel_maps(const F& function) {
  const std::vector<T> a = rounded<T>(random_values(300 * n, 1)), b = rounded<T>(random_values(300 * n, 2));
  std::vector<T> expected;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if constexpr (is_unary<F>) expected.push_back(stored_as<T>(function(to_float(a[i]))));
    if constexpr (!is_unary<F>) expected.push_back(stored_as<T>(function(to_float(a[i]), to_float(b[i]))));
  }
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<T> y = filled<T>(a.size()), in_place = is_unary<F> ? a : b;
    emulate(ForEachElement{MapPack<T, n, F>{function, a.data(), b.data(), y.data()}, 300}, order);
    EXPECT_TRUE(equal_bits(floats(y), floats(expected)));
    const T* const first = is_unary<F> ? in_place.data() : a.data();
    emulate(ForEachElement{MapPack<T, n, F>{function, first, in_place.data(), in_place.data()}, 300}, order);
    EXPECT_TRUE(equal_bits(floats(in_place), floats(expected)));
  }
}

template <typename F>
class ElementwiseKernel : public ::testing::Test {};
template <typename Variant>
struct AllFunctions;
template <typename... F>
struct AllFunctions<std::variant<F...>> {
  using Types = ::testing::Types<F...>;
};
TYPED_TEST_SUITE(ElementwiseKernel, AllFunctions<ElementwiseFunction>::Types);

TYPED_TEST(ElementwiseKernel, IsTheFunctionOfEachElement) {
  expect_kernel_maps<float, 1>(TypeParam{});
  expect_kernel_maps<float, 4>(TypeParam{});
  expect_kernel_maps<Bf16, 1>(TypeParam{});
  expect_kernel_maps<Bf16, 8>(TypeParam{});
}

TEST(ElementwiseFunctions, EqualTheDefinition) {
  for (const float x : {-2.0f, -0.0f, 0.0f, 3.0f}) {
    EXPECT_EQ(ValueOf<Relu>{}(x), std::max(x, 0.0f));
    EXPECT_EQ((GradientOf<Relu>{}(x, 5.0f)), x > 0.0f ? 5.0f : 0.0f);
    EXPECT_EQ(ValueOf<Scale>{{0.25f}}(x), 0.25f * x);
    EXPECT_EQ(ValueOf<Identity>{}(x), x);
    EXPECT_EQ(Sum{}(x, 5.0f), x + 5.0f);
  }
}

}  // namespace
}  // namespace carillon::testing
