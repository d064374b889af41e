// OptimizerSettings: the update rule, its constants, the learning rate schedule and parameter groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/optim/parameter_group.h"
#include "carillon/optim/schedule.h"

namespace carillon {

/// Slow copies of the variables (src/optim/lookahead.h).
struct LookaheadSettings {
  std::int64_t every = 0;  ///< updates; 0: there is none
  double decay = 0.5;
  double power = 0.0;
  std::int64_t steps = 0;  ///< updates of the training; 0: not known, with power 0 alone
};

struct OptimizerSettings {
  std::string rule = "sgd";
  Schedule learning_rate = constant_rate(0.001);
  double moving_average_decay = 0.99;
  double momentum = 0.9;   ///< of "momentum", "nesterov", "lars", "muon-nesterov"
  double dampening = 0.0;  ///< of the rule "momentum"
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;  ///< of "adamw", "lamb", "muon"
  double lars_coefficient = 0.001;                                   ///< of the rule "lars"
  double muon_momentum = 0.95;   ///< of the rules "muon" and "muon-nesterov", as what follows
  std::int64_t muon_steps = 5;   ///< of Newton-Schulz
  bool muon_normalizes = false;  ///< matrices are brought to a fixed norm, in place of a decay
  double weight_decay = 0.0;     ///< of all variables that no group gives another one
  std::vector<ParameterGroup> groups = {};
  LookaheadSettings lookahead = {};
};

struct RuleName {
  std::string_view name;
  std::vector<std::string_view> options;  ///< its settings, as a training's options
};
/// The rules there are.
std::vector<RuleName> update_rules();

}  // namespace carillon
