// sgd: plain stochastic gradient descent.
//
//   w <- w - learning_rate * (g + l2_factor * w)
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

struct Sgd {
  static constexpr std::string_view name = "sgd";
  static constexpr std::array<std::string_view, 0> slots{};

  static void set_scalars(const OptimizerSettings& /*settings*/, std::int64_t /*step*/, StepScalars& /*scalars*/) {}

  /// Fused, so that every processor rounds it alike.
  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, float l2_factor, float gradient, float& value,
                                          float* /*slots*/) {
    value = std::fma(-scalars.at[learning_rate_scalar], std::fma(l2_factor, value, gradient), value);
  }
};

}  // namespace carillon
