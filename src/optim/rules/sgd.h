// sgd: plain stochastic gradient descent.
//
//   w <- w - learning_rate * (g + (l2_factor + weight_decay) * w)
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

struct Sgd {
  static constexpr std::string_view name = "sgd";
  static constexpr std::array<std::string_view, 0> options{};
  static constexpr std::array<std::string_view, 0> slots{};

  static void set_scalars(const OptimizerSettings& /*settings*/, StepScalars& /*scalars*/) {}
  CARILLON_HOST_DEVICE static void set_age(StepScalars& /*scalars*/, std::int64_t /*updates*/) {}

  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* /*slots*/) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    value = std::fma(-rate, std::fma(factors.l2 + factors.weight_decay, value, gradient), value);
  }
};

}  // namespace carillon
