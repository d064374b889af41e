// adamw: Adam (src/optim/rules/adam_moments.h) with decoupled weight decay.
//
//   g <- g + l2_factor * w                     the input of the moments
//   w <- w - learning_rate * weight_decay * w
//   w <- w - learning_rate * m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon)
//
// Variables of one dimension have weight decay only from a group, or with OptimizerSettings::decay_exclude "none".
// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019; PyTorch, AdamW.
#pragma once

#include "src/optim/rules/adam_moments.h"

namespace carillon {

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

}  // namespace carillon
