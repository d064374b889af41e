// The element-wise functions of one input, one functor per op for the CPU loop and the CUDA kernel:
//
//   static constexpr std::string_view type;                       OpDefinition::type
//   static constexpr ActivationKind activation;                   optional: OpTraits::activation
//   static constexpr BackwardReads backward_reads;
//   static constexpr bool is_expensive;                           costs several times the memory access of an element
//   using ForBf16 = ...;                                          optional: a functor for bf16 on a CPU (function_for)
//   float value(float x) const;                                   y
//   float gradient(float read, float dy) const;                   dx; absent if backward_reads is nothing
//
// The arithmetic has no branches and no calls, so that a compiler vectorises it. batch_norm applies the activations to
// its output.
#pragma once

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
  nothing,  ///< the function is linear: dx = value(dy)
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

/// Phi(-a) = exp(-a^2 / 2) q(a) for a >= 0, where q is a polynomial in 1 / (1 + 0.35 a), fitted to a relative error of
/// 3e-8 on [0, 13.5]. Above 13, Phi(-a) is below 1e-38 and counts as 0.
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

 private:
  /// The standard normal distribution at x: Phi(x) and phi(x).
  struct Normal {
    float below, density;
  };

  CARILLON_HOST_DEVICE static Normal normal(float x) {
    const float a = magnitude_of(x);
    const float high = float_of(bits_of(a) & 0xfffff000u), low = a - high;  // high * high is exact
    const float exponential = exp_below_zero(-0.5f * (high * high), -0.5f * low * (a + high));
    const float e = a > 13.0f ? 0.0f : exponential;
    const float tail = e * quotient(a);
    return {x < 0.0f ? tail : 1.0f - tail, e * 0.398942280f};
  }

  /// q(a) = Phi(-a) / exp(-a^2 / 2)
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
    return x * (below < 0.0f ? 0.0f : below);  // below 0 at -5
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

struct Silu {
  static constexpr std::string_view type = "silu";
  static constexpr ActivationKind activation = ActivationKind::silu;
  static constexpr BackwardReads backward_reads = BackwardReads::input;
  static constexpr bool is_expensive = true;
  CARILLON_HOST_DEVICE static float value(float x) { return x * sigmoid(x).of_x; }
  CARILLON_HOST_DEVICE static float derivative(float x) {
    const Sigmoid sigma = sigmoid(x);
    return sigma.of_x * (1.0f + x * sigma.of_minus_x);
  }
  CARILLON_HOST_DEVICE static float gradient(float x, float dy) { return dy * derivative(x); }

 private:
  /// sigma(x) and sigma(-x), which sum to 1.
  struct Sigmoid {
    float of_x, of_minus_x;
  };

  CARILLON_HOST_DEVICE static Sigmoid sigmoid(float x) {
    const float a = magnitude_of(x), exponential = exp_below_zero(-a);
    const float e = a > 86.0f ? 0.0f : exponential;
    const float large = 1.0f / (1.0f + e), small = e * large;
    return {x < 0.0f ? small : large, x < 0.0f ? large : small};
  }
};

struct Scale {
  static constexpr std::string_view type = "scale";
  static constexpr BackwardReads backward_reads = BackwardReads::nothing;
  static constexpr bool is_expensive = false;
  float factor = 1.0f;
  CARILLON_HOST_DEVICE float value(float x) const { return factor * x; }
};

/// The functor for results of type T (float or Bf16).
template <typename T, typename F>
[[gnu::always_inline]] inline auto function_for(const F& function) {
  if constexpr (std::is_same_v<T, Bf16> && requires { typename F::ForBf16; }) {
    return typename F::ForBf16{};
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
