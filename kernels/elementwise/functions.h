// The element-wise functions of one input. Each op has a functor, which the CPU loop and the CUDA kernel use:
//
//   static constexpr std::string_view type;                       OpDefinition::type
//   static constexpr ActivationKind activation;                   optional: OpTraits::activation
//   static constexpr BackwardReads backward_reads;
//   static constexpr bool is_expensive;                           computing takes longer than loading and storing
//   static constexpr bool keeps_gradient = true;                  optional: dx = dy
//   using ForBf16 = ...;                                          optional: a functor for bf16 on a CPU (function_for)
//   F rounded_to_bf16() const;                                    optional: the functor with rounded limits for bf16
//   float value(float x) const;                                   y
//   float gradient(float read, float dy) const;                   dx; optional if backward_reads is nothing
//
// The arithmetic has no branches and no calls, so that a compiler vectorises it. batch_norm applies the activations to
// its output.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include "carillon/core/host_device.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/exp_below_zero.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// The tensor that the gradient reads in addition to dy.
enum class BackwardReads {
  nothing,  ///< the function is linear: dx = value(dy), or dx = dy if keeps_gradient is true
  output,   ///< dx = gradient(y, dy)
  input,    ///< dx = gradient(x, dy)
};

struct Identity {
  static constexpr BackwardReads backward_reads = BackwardReads::nothing;
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE static float value(float x) { return x; }
  CARILLON_HOST_DEVICE static float gradient(float /*x*/, float dy) { return dy; }
};

/// y > 0 exactly if x > 0, so `gradient` accepts x or y. NaN stays NaN.
struct Relu {
  static constexpr std::string_view type = "relu";
  static constexpr ActivationKind activation = ActivationKind::relu;
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE static float value(float x) { return x < 0.0f ? 0.0f : x; }
  CARILLON_HOST_DEVICE static float gradient(float x_or_y, float dy) { return x_or_y > 0.0f ? dy : 0.0f; }
};

struct GeluForBf16;

/// For a >= 0, Phi(-a) = exp(-a^2 / 2) q(a). q is a polynomial in 1 / (1 + 0.35 a), which is fitted to a relative error
/// of 3e-8 on [0, 13.5]. For a above 13, Phi(-a) is below 1e-38 and counts as 0.
struct Gelu {
  static constexpr std::string_view type = "gelu";
  static constexpr ActivationKind activation = ActivationKind::gelu;
  using ForBf16 = GeluForBf16;
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) { return x * normal(x).below; }
  CARILLON_HOST_DEVICE static float derivative(float x) {
    const Normal of = normal(x);
    return of.below + x * of.density;
  }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) { return dy * derivative(x); }

  /// Returns q(a) = Phi(-a) / exp(-a^2 / 2).
  CARILLON_HOST_DEVICE static float quotient(float a) {
    const float t = 1.0f / (1.0f + 0.35f * a);
    float p = -2.9125962e-2f;
    p = p * t + 1.4387269e-1f;
    p = p * t - 2.5550550e-1f;
    p = p * t + 1.5893032e-1f;
    p = p * t - 2.2937799e-2f;
    p = p * t + 1.0543320e-1f;
    p = p * t + 1.1985238e-1f;
    p = p * t + 1.3985908e-1f;
    p = p * t + 1.3962157e-1f;
    return p * t;
  }

 private:
  /// The standard normal distribution at x: Phi(x) and phi(x).
  struct Normal {
    float below, density;
  };

  CARILLON_HOST_DEVICE static Normal normal(float x) {
    const float a = magnitude_of(x);
    const float high = float_of(bits_of(a) & 0xfffff000u), low = a - high;  // the product high * high is exact
    const float exponential = exp_below_zero(-0.5f * (high * high), -0.5f * low * (a + high));
    const float e = a > 13.0f ? 0.0f : exponential;
    const float tail = e * quotient(a);
    return {x < 0.0f ? tail : 1.0f - tail, e * 0.398942280f};
  }
};

/// GELU for results in bf16. Before the rounding to bf16, the error of the value is at most 8e-6, and at most 2e-6 x
/// for x above 5. The error of the derivative is at most 1.5e-5. Phi(x) - 1/2 and (derivative - 1/2) are odd functions.
/// Each is computed as c times a polynomial in u. c is x, limited to [-5, 5], and u = 2 c^2 / 25 - 1. The polynomials
/// minimise the largest error.
struct GeluForBf16 {
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) {
    constexpr float terms[] = {1.41364302e-01f, -7.03005185e-02f, 5.14880096e-02f, -4.03191717e-02f,
                               3.17441627e-02f, -2.42151515e-02f, 1.55478683e-02f, -8.32984347e-03f,
                               7.02130159e-03f, -6.27800496e-03f, 2.27727105e-03f};
    const float below = half_plus_odd(x, terms);
    return x * (below < 0.0f ? 0.0f : below);  // the polynomial is below 0 at -5
  }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) {
    constexpr float terms[] = {1.42130581e-01f, -7.51227812e-02f, 6.68261820e-02f, -7.15419078e-02f,
                               7.70893427e-02f, -8.53556228e-02f, 9.51201120e-02f, -6.84475608e-02f,
                               2.12278971e-02f, -2.77220878e-02f, 4.65147709e-02f, -2.07200048e-02f};
    return dy * half_plus_odd(x, terms);
  }

 private:
  template <int count>
  CARILLON_HOST_DEVICE static float half_plus_odd(float x, const float (&terms)[count]) {
    constexpr float limit = 5.0f;
    const float upper = x > limit ? limit : x, c = upper < -limit ? -limit : upper;  // NaN stays NaN
    const float u = c * c * (2.0f / (limit * limit)) - 1.0f;
    float sum = terms[count - 1];
    CARILLON_UNROLL
    for (int i = count - 1; i-- > 0;) sum = sum * u + terms[i];
    return sum * c + 0.5f;
  }
};

/// sigma(x) and sigma(-x). Their sum is 1.
struct SigmoidPair {
  float of_x, of_minus_x;
};

CARILLON_HOST_DEVICE inline SigmoidPair sigmoid_pair(float x) {
  const float a = magnitude_of(x), exponential = exp_below_zero(-a);
  const float e = a > 86.0f ? 0.0f : exponential;
  const float large = 1.0f / (1.0f + e), small = e * large;
  return {x < 0.0f ? small : large, x < 0.0f ? large : small};
}

struct Silu {
  static constexpr std::string_view type = "silu";
  static constexpr ActivationKind activation = ActivationKind::silu;
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) { return x * sigmoid_pair(x).of_x; }
  CARILLON_HOST_DEVICE static float derivative(float x) {
    const SigmoidPair sigma = sigmoid_pair(x);
    return sigma.of_x * (1.0f + x * sigma.of_minus_x);
  }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) { return dy * derivative(x); }
};

struct Sigmoid {
  static constexpr std::string_view type = "sigmoid";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) { return x == x ? sigmoid_pair(x).of_x : x; }
  CARILLON_HOST_DEVICE static float gradient(float y, float dy) { return dy * (y * (1.0f - y)); }
};

struct HardSigmoid {
  static constexpr std::string_view type = "hard_sigmoid";
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = false;
  float alpha = 1.0f / 6.0f, beta = 0.5f;
  CARILLON_HOST_DEVICE float value(float x) const {
    const float z = alpha * x + beta, below = z > 1.0f ? 1.0f : z;
    return below < 0.0f ? 0.0f : below;
  }
  CARILLON_HOST_DEVICE float gradient(float x, float dy) const {
    const float z = alpha * x + beta, slope = z > 0.0f ? alpha : 0.0f;
    return dy * (z < 1.0f ? slope : 0.0f);
  }
};

struct HardSwish {
  static constexpr std::string_view type = "hard_swish";
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE static float value(float x) { return x * HardSigmoid{}.value(x); }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) {
    const float inside = x * (1.0f / 3.0f) + 0.5f, above = x < 3.0f ? inside : 1.0f;
    return dy * (x > -3.0f ? above : 0.0f);
  }
};

/// If y is strictly between the limits, x is also strictly between the limits. In bf16, the limits are rounded in the
/// same way as y, so that a clipped y is never between the limits.
struct Clip {
  static constexpr std::string_view type = "clip";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = false;
  float least = 0.0f, most = 6.0f;
  CARILLON_HOST_DEVICE float value(float x) const {
    const float below = x > most ? most : x;
    return below < least ? least : below;
  }
  CARILLON_HOST_DEVICE float gradient(float x_or_y, float dy) const {
    const float above_least = x_or_y > least ? dy : 0.0f;
    return x_or_y < most ? above_least : 0.0f;
  }
  CARILLON_HOST_DEVICE Clip rounded_to_bf16() const { return {to_float(to_bf16(least)), to_float(to_bf16(most))}; }
};

/// The slope is not negative, so y > 0 exactly if x > 0.
struct LeakyRelu {
  static constexpr std::string_view type = "leaky_relu";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = false;
  float slope = 0.01f;
  CARILLON_HOST_DEVICE float value(float x) const { return x < 0.0f ? slope * x : x; }
  CARILLON_HOST_DEVICE float gradient(float x_or_y, float dy) const { return x_or_y > 0.0f ? dy : slope * dy; }
};

/// Near 0, uses a polynomial of Cephes (tanhf), which keeps the relative error small.
struct Tanh {
  static constexpr std::string_view type = "tanh";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) {
    const float a = magnitude_of(x), exponential = exp_below_zero(-2.0f * a);
    const float e = a > 43.0f ? 0.0f : exponential, large = (1.0f - e) / (1.0f + e);
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near_zero = p * z * x + x, far = x < 0.0f ? -large : large;
    return a > 0.625f ? far : near_zero;  // NaN stays NaN
  }
  CARILLON_HOST_DEVICE static float gradient(float y, float dy) { return dy * ((1.0f - y) * (1.0f + y)); }
};

/// Computes the square of exp(x / 2), because exp(x / 2) is a normal number even if exp(x) is not.
struct Exp {
  static constexpr std::string_view type = "exp";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) {
    const float half = 0.5f * magnitude_of(x), exponential = exp_below_zero(-half);
    const float e = half > 86.0f ? 0.0f : exponential, root = x < 0.0f ? e : 1.0f / e;
    return x == x ? root * root : x;
  }
  CARILLON_HOST_DEVICE static float gradient(float y, float dy) { return dy * y; }
};

struct Sqrt {
  static constexpr std::string_view type = "sqrt";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE static float value(float x) { return std::sqrt(x); }
  CARILLON_HOST_DEVICE static float gradient(float y, float dy) {
    const float dx = dy * (0.5f / y);
    return y == 0.0f ? 0.0f : dx;
  }
};

struct Reciprocal {
  static constexpr std::string_view type = "reciprocal";
  static constexpr BackwardReads backward_reads = BackwardReads::output;
  static constexpr bool is_expensive = false;
  CARILLON_HOST_DEVICE static float value(float x) { return 1.0f / x; }
  CARILLON_HOST_DEVICE static float gradient(float y, float dy) { return dy * (-y * y); }
};

/// Near 0, uses the Taylor polynomial, which keeps the relative error small. Otherwise erf(a) = 1 - 2 Phi(-sqrt(2) a).
struct Erf {
  static constexpr std::string_view type = "erf";
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) {
    const float a = magnitude_of(x), large = 1.0f - 2.0f * exp_of_square(a) * Gelu::quotient(a * 1.41421356f);
    const float z = x * x;
    float p = -8.5483274e-4f;
    p = p * z + 5.2239776e-3f;
    p = p * z - 2.6866171e-2f;
    p = p * z + 1.1283792e-1f;
    p = p * z - 3.7612639e-1f;
    const float near_zero = p * z * x + two_by_root_of_pi * x, far = x < 0.0f ? -large : large;
    return a > 0.5f ? far : near_zero;  // NaN stays NaN
  }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) {
    return dy * (two_by_root_of_pi * exp_of_square(magnitude_of(x)));
  }

 private:
  static constexpr float two_by_root_of_pi = 1.12837917f;

  /// Returns exp(-a^2), or 0 if a is above 9.2.
  CARILLON_HOST_DEVICE static float exp_of_square(float a) {
    const float high = float_of(bits_of(a) & 0xfffff000u), low = a - high;  // the product high * high is exact
    const float exponential = exp_below_zero(-(high * high), -low * (a + high));
    return a > 9.2f ? 0.0f : exponential;
  }
};

struct Shift {
  static constexpr std::string_view type = "shift";
  static constexpr BackwardReads backward_reads = BackwardReads::nothing;
  static constexpr bool keeps_gradient = true;
  static constexpr bool is_expensive = false;
  float amount = 0.0f;
  CARILLON_HOST_DEVICE float value(float x) const { return x + amount; }
};

struct Scale {
  static constexpr std::string_view type = "scale";
  static constexpr BackwardReads backward_reads = BackwardReads::nothing;
  static constexpr bool is_expensive = false;
  float factor = 1.0f;
  CARILLON_HOST_DEVICE float value(float x) const { return factor * x; }
};

/// Returns the functor for results of type T (float or Bf16).
template <typename T, typename F>
[[gnu::always_inline]] inline auto function_for(const F& function) {
  if constexpr (std::is_same_v<T, Bf16> && requires { typename F::ForBf16; }) {
    return typename F::ForBf16{};
  } else if constexpr (std::is_same_v<T, Bf16> && requires { function.rounded_to_bf16(); }) {
    return function.rounded_to_bf16();
  } else {
    return function;
  }
}

/// Calls body(functor) with the functor of `kind` for results of type T (float or Bf16).
template <typename T, typename Body>
[[gnu::always_inline]] inline auto with_activation(ActivationKind kind, const Body& body) {
  if (kind == ActivationKind::relu) return body(function_for<T>(Relu{}));
  if (kind == ActivationKind::gelu) return body(function_for<T>(Gelu{}));
  if (kind == ActivationKind::silu) return body(function_for<T>(Silu{}));
  return body(function_for<T>(Identity{}));
}

}  // namespace carillon
