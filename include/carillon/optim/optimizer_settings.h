// OptimizerSettings: the update rule and its constants, the learning rate schedule and the parameter groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/optim/parameter_group.h"
#include "carillon/optim/schedule.h"

namespace carillon {

/// Slow copies s of all variables and buffers w.
///
///   s <- s + (1 - a) * (w - s)                after t = every, 2 * every, ... updates
///   w <- s                                    a = decay * (min(t, steps) / steps)^power
///
/// After update number `steps`, w <- s even if t is not a multiple of `every`.
/// Source: Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019, with power 0.
struct LookaheadSettings {
  std::int64_t every = 0;  ///< updates between two lookaheads; 0: disabled
  double decay = 0.5;
  double power = 0.0;      ///< exponent of (update / steps), which scales `decay`; 0: constant
  std::int64_t steps = 0;  ///< updates of the training; 0: unknown, which requires power 0
};

/// A value in OptimizerSettings::decay_exclude that disables the default exclusions.
inline constexpr std::string_view no_decay_exclusion = "none";

struct OptimizerSettings {
  std::string rule = "sgd";
  Schedule learning_rate = constant_rate(0.001);
  double moving_average_decay = 0.99;                                ///< 0: no moving averages
  double momentum = 0.9;                                             ///< momentum, nesterov, lars, muon-nesterov
  double dampening = 0.0;                                            ///< momentum
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;  ///< adamw, lamb, muon
  double lars_coefficient = 0.001;                                   ///< lars
  double muon_momentum = 0.95;                                       ///< muon, muon-nesterov
  std::int64_t muon_steps = 5;                                       ///< Newton-Schulz iterations (muon, muon-nesterov)
  bool muon_normalizes = false;  ///< keep matrices at a fixed norm, without weight decay (muon, muon-nesterov)
  double weight_decay = 0.0;     ///< unless a group states another one
  /// Patterns of variables without weight decay. adamw, lars and lamb also exclude all vectors (biases,
  /// scales and shifts of norms, layer scales, class token and positions), unless `no_decay_exclusion` is among the
  /// patterns or a group states a decay.
  std::vector<std::string> decay_exclude = {};
  /// The learning rate of a layer divided by the learning rate of the next layer (layer_rates in
  /// src/optim/update_factors.h). 1: all layers have the same rate.
  double layer_decay = 1.0;
  double clip_norm = 0.0;  ///< largest norm of the mean gradient; 0: the gradient is not clipped
  std::vector<ParameterGroup> groups = {};
  LookaheadSettings lookahead = {};

  bool keeps_averages() const { return moving_average_decay > 0.0; }
};

struct RuleName {
  std::string_view name;
  std::vector<std::string_view> options;  ///< the options that set its constants
};
/// All update rules.
std::vector<RuleName> update_rules();

}  // namespace carillon
