// OptimizerSettings: the update rule and its constants, the schedule of the learning rate, the groups of parameters and
// the lookahead.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/graph/parameters.h"

namespace carillon {

/// The learning rate as a function of the step. Schedules are values and can be nested:
///
///   warm_up({.steps = 500}, cosine_decay({.initial = 0.4, .steps = 9500}))
class Schedule {
 public:
  /// rate(s): the learning rate of update s, counted from 0.
  explicit Schedule(std::function<double(std::int64_t step)> rate) : rate_(std::move(rate)) {}
  double rate(std::int64_t step) const { return rate_(step); }

 private:
  std::function<double(std::int64_t)> rate_;
};

Schedule constant_rate(double rate);

/// rate(s) = initial * factor^(s / decay_steps); `staircase` rounds the exponent down. Source: TensorFlow,
/// exponential_decay.
struct ExponentialDecay {
  double initial = 0.001;
  double factor = 1.0;
  double decay_steps = 1.0;
  bool staircase = false;
};
Schedule exponential_decay(const ExponentialDecay& decay);

/// rate(s) = final + (initial - final) * (1 + cos(pi * s / steps)) / 2 for s < steps; rate(s) = final for later
/// updates. Source: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.
struct CosineDecay {
  double initial = 0.1;
  double final = 0.0;
  std::int64_t steps = 1;
};
Schedule cosine_decay(const CosineDecay& decay);

/// rate(s) = final + (initial - final) * (1 - s / steps)^power for s < steps; rate(s) = final for later updates.
/// Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017; MLPerf's ResNet-50.
struct PolynomialDecay {
  double initial = 0.1;
  double final = 0.0;
  double power = 1.0;
  std::int64_t steps = 1;
};
Schedule polynomial_decay(const PolynomialDecay& decay);

/// rate(s) = initial * factor^n. n: number of milestones <= s. Milestones are in ascending order. Source: PyTorch,
/// MultiStepLR.
struct StepDecay {
  double initial = 0.1;
  double factor = 0.1;
  std::vector<std::int64_t> milestones;
};
Schedule step_decay(StepDecay decay);

struct SchedulePoint {
  std::int64_t step = 0;
  double rate = 0.0;
};
/// The rate is interpolated linearly between the points, which must be in ascending order of steps. Before the first
/// point and after the last point, the rate is constant. Three points make a triangle. Errors: failed (there is no
/// point).
Schedule piecewise_linear(std::vector<SchedulePoint> points);

/// rate(s) = from + (then.rate(0) - from) * s / steps for s < steps; rate(s) = then.rate(s - steps) for later updates.
/// Source: Goyal and others, "Accurate, large minibatch SGD", 2017, section 2.2.
struct WarmUp {
  double from = 0.0;
  std::int64_t steps = 0;
};
Schedule warm_up(const WarmUp& warm_up, Schedule then);

/// Training settings for all variables with a name that matches a pattern. The first group that matches a variable's
/// name applies to the variable. If no group matches a variable, the variable has the settings of OptimizerSettings.
struct ParameterGroup {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  std::string pattern;               ///< shell pattern of the whole name; `*` can also match `/`
  double rate = 1.0;                 ///< factor of the learning rate
  std::optional<double> decay = {};  ///< weight decay; nullopt: OptimizerSettings::weight_decay
  std::optional<bool> muon = {};     ///< whether muon rules orthogonalise the variable; nullopt: they orthogonalise it
                                     ///< only if it is a hidden matrix
  // The variable is trained in steps [frozen_until, frozen_after). In other steps, the variable's values and the slots
  // of the rule do not change, but moving average and lookahead continue. Bias corrections count only the updates of
  // the variable from step frozen_until on.
  std::int64_t frozen_until = 0, frozen_after = never;
  std::string option = "--group";  ///< the option that defines the group; messages name this option
};

/// Checks the patterns of the groups. Errors: usage (a pattern matches no variable, or earlier groups already match all
/// of its variables; the message lists the variables).
void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables);

/// Slow copies s of all variables and buffers w.
///
///   s <- s + (1 - a) * (w - s)                after t = every, 2 * every, ... updates
///   w <- s                                    a = decay * (min(t, steps) / steps)^power
///
/// After update number `steps`, the assignment w <- s takes place even if t is not a multiple of `every`.
/// Source: Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019. The paper's method has
/// power 0.
struct LookaheadSettings {
  std::int64_t every = 0;  ///< updates between two lookaheads; 0: disabled
  double decay = 0.5;
  double power = 0.0;      ///< exponent of (update / steps), which scales `decay`; 0: constant
  std::int64_t steps = 0;  ///< number of updates of the training; 0: unknown, which requires power 0
};

/// An item of OptimizerSettings::decay_exclude. If the list contains this item, variables that are vectors also have
/// weight decay.
inline constexpr std::string_view no_decay_exclusion = "none";

struct OptimizerSettings {
  /// Name of the update rule. The comments of the constants below list the rules that use them.
  std::string rule = "sgd";
  Schedule learning_rate = constant_rate(0.001);
  double moving_average_decay = 0.99;                                ///< decay of the moving averages per update; 0: no
                                                                     ///< moving averages
  double momentum = 0.9;                                             ///< momentum coefficient (momentum, nesterov,
                                                                     ///< lars, muon-nesterov)
  double dampening = 0.0;                                            ///< dampening of the gradient, 0 to 1 (momentum)
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;  ///< constants of Adam's moments (adamw, lamb,
                                                                     ///< muon)
  double lars_coefficient = 0.001;                                   ///< trust coefficient (lars)
  double muon_momentum = 0.95;                                       ///< momentum coefficient of orthogonalised
                                                                     ///< variables (muon, muon-nesterov)
  std::int64_t muon_steps = 5;                                       ///< Newton-Schulz iterations (muon, muon-nesterov)
  bool muon_normalizes = false;  ///< keep matrices at a fixed norm, without weight decay (muon, muon-nesterov)
  double weight_decay = 0.0;     ///< weight decay; a group can replace it
  /// Patterns of variables without weight decay. The rules adamw, lars and lamb also exclude all vectors: biases,
  /// scales and shifts of norms, layer scales, class token and positions. If `no_decay_exclusion` is among the
  /// patterns, vectors have weight decay, too. A group that states a decay overrides this exclusion for its variables.
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
  std::vector<std::string_view> options;  ///< the options that set the constants of the rule
};
/// Returns all update rules.
std::vector<RuleName> update_rules();

}  // namespace carillon
