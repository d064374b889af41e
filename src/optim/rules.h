// The update rules, their list, and the selection of a rule by its name. To add a rule, write its struct in this file,
// as update_rule.h requires, and add it to UpdateRules.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string_view>
#include <type_traits>

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

/// momentum: stochastic gradient descent with momentum. The learning rate is not part of v.
///
///   u <- g + (l2_factor + weight_decay) * w
///   v <- u                                       first update of the variable
///   v <- momentum * v + (1 - dampening) * u      later updates
///   w <- w - learning_rate * v
///
/// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013;
/// PyTorch, SGD. Without dampening, the rule is the same as TensorFlow's MomentumOptimizer.
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

/// nesterov: Nesterov momentum. The learning rate is not part of v.
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

/// Adam's moments, for adamw and lamb. u: number of the variable's update, counted from 1.
///
///   m <- m + (1 - beta1) * (g - m)
///   v <- v + (1 - beta2) * (g^2 - v)
///   direction = m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon)
///
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", 2015. As in PyTorch, epsilon is added after the
/// square root and its bias correction.
struct AdamMoments {
  static constexpr std::array<std::string_view, 3> options{"adam-beta1", "adam-beta2", "adam-epsilon"};

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    scalars.at[rest1] = static_cast<float>(1.0 - settings.adam_beta1);
    scalars.at[rest2] = static_cast<float>(1.0 - settings.adam_beta2);
    // A denormal epsilon would be flushed to 0, and the direction of padding elements would be 0 / 0.
    scalars.at[epsilon] = std::max(static_cast<float>(settings.adam_epsilon), std::numeric_limits<float>::min());
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& scalars, std::int64_t updates) {
    scalars.at[correction1] = static_cast<float>(1.0 / (1.0 - power(1.0 - scalars.at[rest1], updates + 1)));
    scalars.at[correction2] = static_cast<float>(1.0 / std::sqrt(1.0 - power(1.0 - scalars.at[rest2], updates + 1)));
  }

  CARILLON_HOST_DEVICE static void advance(const StepScalars& scalars, float g, float* state) {
    state[0] = std::fma(scalars.at[rest1], g - state[0], state[0]);
    // Rounds so that state[1] is never negative.
    state[1] = std::fma(scalars.at[rest2], std::fma(g, g, -state[1]), state[1]);
  }
  /// Returns the direction without its factor correction1.
  CARILLON_HOST_DEVICE static float quotient(const StepScalars& scalars, const float* state) {
    return state[0] / std::fma(std::sqrt(state[1]), scalars.at[correction2], scalars.at[epsilon]);
  }

 protected:
  /// Indices into StepScalars: 1 - beta1, 1 - beta2, epsilon, 1 / (1 - beta1^u), 1 / sqrt(1 - beta2^u).
  static constexpr std::size_t rest1 = first_rule_scalar, rest2 = rest1 + 1, epsilon = rest1 + 2,
                               correction1 = rest1 + 3, correction2 = rest1 + 4;

 private:
  /// Computes base^exponent with products only, because all processors round products in the same way.
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
/// One-dimensional variables have weight decay only if a group sets it, or if OptimizerSettings::decay_exclude is
/// "none". Source: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019; PyTorch, AdamW.
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

/// lamb: uses Adam's direction (AdamMoments). The step of a variable is proportional to the variable's norm.
///
///   g <- g + l2_factor * w                     the input of the moments
///   d <- m / (1 - beta1^u) / (sqrt(v / (1 - beta2^u)) + epsilon) + weight_decay * w
///   w <- w - learning_rate * |w| / |d| * d
///
/// If |w| or |d| is 0, the ratio |w| / |d| counts as 1. One-dimensional variables have no ratio. These variables have
/// weight decay only if a group sets it, or if OptimizerSettings::decay_exclude is "none". Source: You and others,
/// "Large batch optimization for deep learning: training BERT in 76 minutes", 2020.
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

/// lars: momentum. The step of a variable is proportional to the variable's norm. The learning rate is part of v.
///
///   g <- g + l2_factor * w
///   r <- coefficient * |w| / (|g| + weight_decay * |w|)
///   v <- momentum * v + learning_rate * r * (g + weight_decay * w)
///   w <- w - v
///
/// If |w| or |g| is 0, r is 1. One-dimensional variables have r = 1. These variables have weight decay only if a group
/// sets it, or if OptimizerSettings::decay_exclude is "none". Source: You, Gitman, Ginsburg, "Large batch training of
/// convolutional networks", 2017; MLPerf's ResNet-50.
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

/// muon: momentum with orthogonalised matrices, for hidden layers. All other variables use another rule.
///
///   g <- g + l2_factor * w
///   v <- momentum * v + (1 - momentum) * g
///   O <- newton_schulz((1 - momentum) * g + momentum * v)             src/optim/newton_schulz.h
///   w <- w - learning_rate * weight_decay * w - learning_rate * s * O
///
/// s = sqrt(max(1, out / in)) for a dense layer, sqrt(max(1, height / width)) for a convolution. muon_normalizes
/// selects the variant of cifar10-airbench. In this variant, the factor (1 - momentum) becomes 1, and s = 1. The
/// assignment w <- w * sqrt(out) / |w| replaces weight decay, but a group may still set a weight decay.
/// UpdateFactors::orthogonal is true for the weights of hidden layers. Source: Jordan and others, "Muon: an optimizer
/// for hidden layers in neural networks", 2024; github.com/KellerJordan/Muon; github.com/KellerJordan/cifar10-airbench,
/// airbench94_muon.py.
template <UpdateRule Others>
struct Muon {
  static constexpr bool orthogonalizes = true;

  static void set_scalars(const OptimizerSettings& settings, StepScalars& scalars) {
    Others::set_scalars(settings, scalars);
    scalars.at[momentum] = static_cast<float>(settings.muon_momentum);
    scalars.at[of_gradient] = settings.muon_normalizes ? 1.0f : static_cast<float>(1.0 - settings.muon_momentum);
  }
  CARILLON_HOST_DEVICE static void set_age(StepScalars& scalars, std::int64_t updates) {
    Others::set_age(scalars, updates);
  }

  CARILLON_HOST_DEVICE static float direction(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                              float value, float* state) {
    const float own = scalars.at[of_gradient] * std::fma(factors.l2, value, gradient);
    state[0] = std::fma(scalars.at[momentum], state[0], own);
    return std::fma(scalars.at[momentum], state[0], own);
  }
  CARILLON_HOST_DEVICE static void update(const StepScalars& scalars, const UpdateFactors& factors, float gradient,
                                          float& value, float* state) {
    if (!factors.orthogonal) return Others::update(scalars, factors, gradient, value, state);
    const float rate = scalars.at[learning_rate_scalar] * factors.rate;
    value *= factors.kept;
    value = std::fma(-rate * factors.weight_decay, value, value);
    value = std::fma(-rate * factors.scale, gradient, value);
  }

 private:
  /// Indices into StepScalars, after the indices of Others.
  static constexpr std::size_t momentum = StepScalars::count - 2, of_gradient = momentum + 1;
};

/// The rule muon: all variables that Muon does not orthogonalise use adamw.
struct MuonAdamW : Muon<AdamW> {
  static constexpr std::string_view name = "muon";
  static constexpr std::array<std::string_view, 6> options{"muon-momentum", "muon-steps", "muon-normalize",
                                                           "adam-beta1",    "adam-beta2", "adam-epsilon"};
  static constexpr std::array<std::string_view, 2> slots{"muon_m", "muon_v"};
};

/// The rule muon-nesterov: all variables that Muon does not orthogonalise use nesterov.
struct MuonNesterov : Muon<Nesterov> {
  static constexpr std::string_view name = "muon-nesterov";
  static constexpr std::array<std::string_view, 4> options{"muon-momentum", "muon-steps", "muon-normalize", "momentum"};
  static constexpr std::array<std::string_view, 1> slots{"muon_momentum"};
};

template <UpdateRule... R>
struct RuleList {};
using UpdateRules = RuleList<Sgd, Momentum, Nesterov, AdamW, Lars, Lamb, MuonAdamW, MuonNesterov>;

/// Does the same as make_optimizer, but requires parameters in host memory and a rule that needs whole variables.
/// Errors: failed (the rule is elementwise).
std::unique_ptr<Optimizer> make_variable_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                                   const StepInputs& inputs);
/// Does the same as make_optimizer on a GPU. CUDA builds only. The update kernel is the step's last kernel
/// (StepEnd::finish_block).
std::unique_ptr<Optimizer> make_optimizer_cuda(const OptimizerSettings& settings, const ParameterStore& parameters,
                                               Device& device, const StepInputs& inputs, Arithmetic arithmetic);

[[noreturn]] void fail_unknown_rule(std::string_view name);

template <typename Body, UpdateRule First, UpdateRule... Others>
auto with_rule_of(RuleList<First, Others...> /*rules*/, std::string_view name, const Body& body) {
  if (name == First::name) return body(std::type_identity<First>{});
  if constexpr (sizeof...(Others) > 0) {
    return with_rule_of(RuleList<Others...>{}, name, body);
  } else {
    fail_unknown_rule(name);
  }
}

/// Calls body(std::type_identity<Rule>{}) with the rule that has this name. Errors: usage (the name is unknown; the
/// message lists the rules).
template <typename Body>
auto with_rule(std::string_view name, const Body& body) {
  return with_rule_of(UpdateRules{}, name, body);
}

}  // namespace carillon
