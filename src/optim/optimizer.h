// Optimizer: one pass over the flat arrays that applies L2, the update, the lookahead and the moving average.
//
//   w <- rule(w, g, factors, slots, scalars)               g: averaged over the towers; the rule adds L2 and decay
//   s, w <- lookahead(s, w)                                in the steps that have one (optim/lookahead.h)
//   a <- a - (1 - average_decay) * (a - w)                 with the new w
//
// The rule is one of src/optim/rules.h, by name. What it keeps from step to step, the slow copies s and the moving
// averages a are slots of the parameter store; what changes with the step are scalars of the step's inputs, and what
// differs between variables are factors: of their L2, of their group (optim/parameter_group.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/graph/step_end.h"
#include "src/optim/lookahead.h"

namespace carillon {

/// The slot of the variables' moving averages; every optimiser has it.
inline constexpr std::string_view moving_average_slot = "moving_average";

/// What the optimiser's parameter store is to hold: the moving averages, what its rule keeps, the lookahead's slow
/// copies. Errors: usage (there is no such rule: lists those there are).
std::vector<Slot> optimizer_slots(const OptimizerSettings& settings);

/// Places in StepScalars: those that every optimiser has, then its rule's own.
inline constexpr std::size_t learning_rate_scalar = 0, average_decay_scalar = 1, lookahead_scalar = 2,
                             first_rule_scalar = 3;
/// The scalars of update number `step`, counted from 0.
StepScalars step_scalars(const OptimizerSettings& settings, std::int64_t step);

/// Whether the rule updates each element apart, so that its optimiser updates ranges on a CPU; else it needs whole
/// variables, for their norms or as matrices. Errors: as optimizer_slots.
bool updates_elements_apart(const OptimizerSettings& settings);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Enqueues the update of all parameters from their averaged gradients, where `end` allows it, and ends the step. A
  /// GPU's finds the L2 loss on the way, in steps that tell it.
  virtual void apply(const StepEnd& end, Stream& stream) = 0;
  /// Enqueues the multiplication of gradients and step sums by end.result_scale, so that they can be read; `apply` is
  /// then told of a factor of 1. Errors: failed (on a CPU, where they are means).
  virtual void make_means(const StepEnd& end, Stream& stream);
  /// Whether `update` does what it says: on variables in the host's memory.
  virtual bool updates_ranges() const { return false; }
  /// Updates elements [first, first + gradients.size()) of the flat arrays from their averaged gradients, on this
  /// thread and at once; other threads may update others. Errors: failed (not where updates_ranges).
  virtual void update(std::size_t first, std::span<const float> gradients);
  /// sum over parameters of l2_factor * sum(w^2) / 2 for the present values, in the host's memory. Errors: failed (on a
  /// GPU).
  virtual double l2_loss();
};

/// The steps [first, end) in which a variable is trained, by its group.
struct TrainedSteps {
  std::int64_t first = 0, end = 0;
  bool contain(std::int64_t step) const { return first <= step && step < end; }
};
/// [variables.size()]. Errors: as check_variables.
std::vector<TrainedSteps> trained_steps(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables);

/// What make_optimizer refuses. Errors: as check_groups; usage (muon has no matrix, or is given a vector).
void check_variables(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables);

/// As Optimizer::update, on all threads.
void update_on_all_threads(Optimizer& optimizer, std::size_t first, std::span<const float> gradients);

/// `parameters`, with the slots of these settings, and `inputs`, which say the scalars of each step, outlive it.
/// Errors: as check_variables.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                          Device& device, const StepInputs& inputs);

}  // namespace carillon
