// lamb: Adam's direction (AdamMoments) with steps in proportion to each variable's norm.
//
//   g <- g + l2_factor * w                     the input of the moments
//   d <- m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon) + weight_decay * w
//   w <- w - learning_rate * |w| / |d| * d
//
// If |w| or |d| is 0, the ratio |w| / |d| counts as 1. Variables of one dimension have no ratio. They have weight decay
// only from a group, or with OptimizerSettings::decay_exclude "none". Source: You and others, "Large batch optimization
// for deep learning: training BERT in 76 minutes", 2020.
#pragma once

#include "src/optim/rules/adamw.h"

namespace carillon {

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
