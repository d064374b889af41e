// lars: momentum with steps in proportion to each variable's norm. v includes the learning rate.
//
//   g <- g + l2_factor * w
//   r <- coefficient * |w| / (|g| + weight_decay * |w|)
//   v <- momentum * v + learning_rate * r * (g + weight_decay * w)
//   w <- w - v
//
// If |w| or |g| is 0, r is 1. Variables of one dimension have r = 1. They have weight decay only from a group, or with
// OptimizerSettings::decay_exclude "none". Source: You, Gitman, Ginsburg, "Large batch training of convolutional
// networks", 2017; MLPerf's ResNet-50.
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

struct Lars {
  static constexpr std::string_view name = "lars";
  static constexpr std::array<std::string_view, 2> options{"momentum", "lars-coefficient"};
  static constexpr std::array<std::string_view, 1> slots{"lars_momentum"};
  static constexpr bool decays_vectors = false;

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    scalars.at[momentum] = static_cast<float>(settings.momentum);
    scalars.at[coefficient] = static_cast<float>(settings.lars_coefficient);
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& /*scalars*/, std::int64_t /*updates*/) {}

  CARILLON_HOST_DEVICE static float direction(const StepScalars& /*scalars*/, const UpdateFactors& factors,
                                              float gradient, float value, float* /*slots*/) {
    return std::fma(factors.l2, value, gradient);
  }
  CARILLON_HOST_DEVICE static double ratio(const StepScalars& scalars, const UpdateFactors& factors, double value_norm,
                                           double direction_norm) {
    const double decay = factors.weight_decay;
    return scalars.at[coefficient] * value_norm / std::fma(decay, value_norm, direction_norm);
  }
  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* state) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    const float decayed = std::fma(factors.l2 + factors.weight_decay, value, gradient);
    state[0] = std::fma(scalars.at[momentum], state[0], rate * decayed);
    value -= state[0];
  }

 private:
  /// Indices into StepScalars.
  static constexpr std::size_t momentum = first_rule_scalar, coefficient = momentum + 1;
};

}  // namespace carillon
