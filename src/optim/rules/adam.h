// Rules with Adam's moments: adamw, lamb.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/optim/update_rule.h"

namespace carillon {

/// Adam's moments, for adamw and lamb. u: number of the variable's update, counted from 1.
///
///   m <- m + (1 - beta1) * (g - m)
///   v <- v + (1 - beta2) * (g^2 - v)
///   direction = m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon)
///
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", 2015. As in PyTorch, epsilon is added after the
/// root and its correction.
struct AdamMoments {
  static constexpr std::array<std::string_view, 3> options{"adam-beta1", "adam-beta2", "adam-epsilon"};

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    scalars.at[rest1] = static_cast<float>(1.0 - settings.adam_beta1);
    scalars.at[rest2] = static_cast<float>(1.0 - settings.adam_beta2);
    // A denormal epsilon would be flushed to 0, and padding would become 0 / 0.
    scalars.at[epsilon] = std::max(static_cast<float>(settings.adam_epsilon), std::numeric_limits<float>::min());
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& scalars, std::int64_t updates) {
    scalars.at[correction1] = static_cast<float>(1.0 / (1.0 - power(1.0 - scalars.at[rest1], updates + 1)));
    scalars.at[correction2] = static_cast<float>(1.0 / std::sqrt(1.0 - power(1.0 - scalars.at[rest2], updates + 1)));
  }

  CARILLON_HOST_DEVICE static void advance(const StepScalars& scalars, float g, float* state) {
    state[0] = std::fma(scalars.at[rest1], g - state[0], state[0]);
    state[1] = std::fma(scalars.at[rest2], std::fma(g, g, -state[1]), state[1]);  // never negative
  }
  /// The direction without its factor correction1.
  CARILLON_HOST_DEVICE static float quotient(const StepScalars& scalars, const float* state) {
    return state[0] / std::fma(std::sqrt(state[1]), scalars.at[correction2], scalars.at[epsilon]);
  }

 protected:
  /// Indices into StepScalars: 1 - beta1, 1 - beta2, epsilon, 1 / (1 - beta1^u), 1 / sqrt(1 - beta2^u).
  static constexpr std::size_t rest1 = first_rule_scalar, rest2 = rest1 + 1, epsilon = rest1 + 2,
                               correction1 = rest1 + 3, correction2 = rest1 + 4;

 private:
  /// base^exponent with products only, which every processor rounds alike.
  CARILLON_HOST_DEVICE static double power(double base, std::int64_t exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent /= 2, base *= base) {
      if (exponent % 2 == 1) result *= base;
    }
    return result;
  }
};

/// adamw: Adam with decoupled weight decay.
///
///   g <- g + l2_factor * w                     the input of the moments
///   w <- w - learning_rate * weight_decay * w
///   w <- w - learning_rate * m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon)
///
/// Variables of one dimension have weight decay only from a group, or with OptimizerSettings::decay_exclude "none".
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019; PyTorch, AdamW.
struct AdamW : AdamMoments {
  static constexpr std::string_view name = "adamw";
  static constexpr std::array<std::string_view, 2> slots{"adam_m", "adam_v"};
  static constexpr bool decays_vectors = false;

  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* state) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    advance(scalars, std::fma(factors.l2, value, gradient), state);
    value = std::fma(-rate * factors.weight_decay, value, value);
    value = std::fma(-rate * scalars.at[correction1], quotient(scalars, state), value);
  }
};

/// lamb: Adam's direction (AdamMoments) with steps in proportion to each variable's norm.
///
///   g <- g + l2_factor * w                     the input of the moments
///   d <- m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon) + weight_decay * w
///   w <- w - learning_rate * |w| / |d| * d
///
/// If |w| or |d| is 0, the ratio |w| / |d| counts as 1. Variables of one dimension have no ratio. They have weight
/// decay only from a group, or with OptimizerSettings::decay_exclude "none". Source: You and others, "Large batch
/// optimization for deep learning: training BERT in 76 minutes", 2020.
struct Lamb : AdamMoments {
  static constexpr std::string_view name = "lamb";
  static constexpr std::array<std::string_view, 2> slots{"lamb_m", "lamb_v"};
  static constexpr bool decays_vectors = false;

  CARILLON_HOST_DEVICE static float direction(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                              float value, float* state) {
    advance(scalars, std::fma(factors.l2, value, gradient), state);
    return present_direction(scalars, factors, value, state);
  }
  CARILLON_HOST_DEVICE static double ratio(const StepScalars& /*scalars*/, const UpdateFactors& /*factors*/,
                                           double value_norm, double direction_norm) {
    return value_norm / direction_norm;
  }
  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float /*gradient*/,
                                          float& value, float* state) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    value = std::fma(-rate, present_direction(scalars, factors, value, state), value);
  }

 private:
  CARILLON_HOST_DEVICE static float present_direction(const StepScalars& scalars, const UpdateFactors& factors,
                                                      float value, const float* state) {
    return std::fma(factors.weight_decay, value, scalars.at[correction1] * quotient(scalars, state));
  }
};

}  // namespace carillon
