// nesterov: Nesterov momentum. v excludes the learning rate.
//
//   u <- g + (l2_factor + weight_decay) * w
//   v <- momentum * v + u
//   w <- w - learning_rate * (u + momentum * v)
//
// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013,
// in the form of PyTorch's SGD.
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

struct Nesterov {
  static constexpr std::string_view name = "nesterov";
  static constexpr std::array<std::string_view, 1> options{"momentum"};
  static constexpr std::array<std::string_view, 1> slots{"nesterov_momentum"};

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    scalars.at[momentum] = static_cast<float>(settings.momentum);
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& /*scalars*/, std::int64_t /*updates*/) {}

  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* state) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    const float decayed = std::fma(factors.l2 + factors.weight_decay, value, gradient);
    state[0] = std::fma(scalars.at[momentum], state[0], decayed);
    value = std::fma(-rate, std::fma(scalars.at[momentum], state[0], decayed), value);
  }

 private:
  static constexpr std::size_t momentum = first_rule_scalar;  ///< index into StepScalars
};

}  // namespace carillon
