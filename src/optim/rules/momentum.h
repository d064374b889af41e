// momentum: stochastic gradient descent with momentum, in TensorFlow's form: the learning rate is outside of v.
//
//   v <- momentum * v + (g + l2_factor * w)
//   w <- w - learning_rate * v
//
// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013;
// TensorFlow, MomentumOptimizer.
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

struct Momentum {
  static constexpr std::string_view name = "momentum";
  static constexpr std::array<std::string_view, 1> slots{"momentum"};

  static void set_scalars(const OptimizerSettings& settings, std::int64_t /*step*/, StepScalars& scalars) {
    scalars.at[first_rule_scalar] = static_cast<float>(settings.momentum);
  }

  /// Fused, so that every processor rounds it alike.
  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, float l2_factor, float gradient, float& value,
                                          float* slots) {
    slots[0] = std::fma(scalars.at[first_rule_scalar], slots[0], std::fma(l2_factor, value, gradient));
    value = std::fma(-scalars.at[learning_rate_scalar], slots[0], value);
  }
};

}  // namespace carillon
