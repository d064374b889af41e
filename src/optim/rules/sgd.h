// Stochastic gradient descent: sgd, momentum, nesterov.
#pragma once

#include <array>
#include <cmath>

#include "src/optim/update_rule.h"

namespace carillon {

/// sgd: plain stochastic gradient descent.
///
///   w <- w - learning_rate * (g + (l2_factor + weight_decay) * w)
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

/// momentum: stochastic gradient descent with momentum. v excludes the learning rate.
///
///   u <- g + (l2_factor + weight_decay) * w
///   v <- u                                       first update of the variable
///   v <- momentum * v + (1 - dampening) * u      later updates
///   w <- w - learning_rate * v
///
/// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013;
/// PyTorch, SGD. Without dampening it equals TensorFlow's MomentumOptimizer.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  static constexpr std::array<std::string_view, 2> options{"momentum", "dampening"};
  static constexpr std::array<std::string_view, 1> slots{"momentum"};

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    scalars.at[momentum] = static_cast<float>(settings.momentum);
    scalars.at[later_gradients] = static_cast<float>(1.0 - settings.dampening);
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& scalars, std::int64_t updates) {
    scalars.at[this_gradient] = updates == 0 ? 1.0f : scalars.at[later_gradients];
  }

  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* state) {
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    const float decayed = std::fma(factors.l2 + factors.weight_decay, value, gradient);
    state[0] = std::fma(scalars.at[momentum], state[0], scalars.at[this_gradient] * decayed);
    value = std::fma(-rate, state[0], value);
  }

 private:
  /// Indices into StepScalars. this_gradient: factor of u in this update. later_gradients: factor of u in later
  /// updates.
  static constexpr std::size_t momentum = first_rule_scalar, this_gradient = momentum + 1,
                               later_gradients = momentum + 2;
};

/// nesterov: Nesterov momentum. v excludes the learning rate.
///
///   u <- g + (l2_factor + weight_decay) * w
///   v <- momentum * v + u
///   w <- w - learning_rate * (u + momentum * v)
///
/// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013,
/// in the form of PyTorch's SGD.
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
