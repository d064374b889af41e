// Optimizer: applies L2, the update rule, the lookahead and the moving average in one pass over the flat arrays.
//
//   g    <- clip * g, l2 <- clip * l2                      with OptimizerSettings::clip_norm (GradientNorm)
//   w    <- rule(w, g, factors, slots, scalars)            g: mean gradient; the rule adds L2 and weight decay
//   s, w <- lookahead(s, w)                                in steps with a lookahead (LookaheadSettings)
//   a    <- a - (1 - average_decay) * (a - w)              with the new w
//
// OptimizerSettings::rule selects one of the rules in src/optim/rules.h. The rule's state, the slow copies s and the
// moving averages a are slots of the parameter store. *Scalars* are values that change from step to step; they are part
// of the step's inputs. *Factors* are values that differ between variables; they come from the variable's L2 factor and
// group (ParameterGroup).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/device/device.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/optim/update_factors.h"

namespace carillon {

/// The slot of the variables' moving averages. The slot exists if OptimizerSettings::keeps_averages is true.
inline constexpr std::string_view moving_average_slot = "moving_average";

/// The slot of the variables' slow copies. The slot exists if the optimiser has a lookahead.
inline constexpr std::string_view lookahead_slot = "lookahead";

/// Returns the optimiser's slots: the moving averages, the rule's state, the lookahead's slow copies. Errors: usage
/// (the rule is unknown; the message lists the rules).
std::vector<Slot> optimizer_slots(const OptimizerSettings& settings);

/// Indices into StepScalars: first the scalars of every optimiser, then the scalars of the rule.
inline constexpr std::size_t learning_rate_scalar = 0, average_decay_scalar = 1, lookahead_scalar = 2,
                             first_rule_scalar = 3;
/// Returns the decay d of the moving averages, a <- a - (1 - d) * (a - w), after t applied updates. d follows
/// TensorFlow's warm-up: min(decay, (1 + t) / (10 + t)).
double moving_average_decay(double decay, std::int64_t updates_applied);
/// Returns the scalars of update `step`, counted from 0. `schedule_step`: the step at which the schedule of the
/// learning rate is evaluated.
StepScalars step_scalars(const OptimizerSettings& settings, std::int64_t step, std::int64_t schedule_step);
inline StepScalars step_scalars(const OptimizerSettings& settings, std::int64_t step) {
  return step_scalars(settings, step, step);
}

/// Updates all parameters, on a CPU or a GPU.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Enqueues the update of all parameters from their gradients if `end` allows the update, and ends the step. The
  /// products of the gradients and end.result_scale are the mean gradients. On a CPU, result_scale is 1. On a GPU, if
  /// the step reports the L2 loss, the update also computes it. With OptimizerSettings::clip_norm the update first
  /// computes the gradient's norm.
  virtual void apply(const StepEnd& end, Stream& stream) = 0;
  /// Returns the norm of the gradient in the last update, before clipping. The norm is 0 before the first update. It is
  /// always 0 without OptimizerSettings::clip_norm and on a GPU.
  virtual double gradient_norm() const { return 0.0; }
};

/// An optimiser that can also update parts of the flat arrays. The optimiser works in host memory, with rules that
/// update each element independently.
class ElementwiseOptimizer : public Optimizer {
 public:
  /// Sets the norm and the clip factor of the step's gradient, which update_range uses. With
  /// OptimizerSettings::clip_norm, call this function in each step before update_range. `apply` itself computes norm
  /// and factor, so it does not need this call.
  virtual void clip(const ClippedNorm& norm) = 0;
  /// Updates elements [first, first + gradients.size()) of the flat arrays from their mean gradients. Runs on the
  /// calling thread, and is complete when it returns. Several threads may update disjoint ranges concurrently. Errors:
  /// failed (OptimizerSettings::clip_norm is set, but `clip` was never called).
  virtual void update_range(std::size_t first, std::span<const float> gradients) = 0;
};

/// True if the rule updates each element independently. Other rules need whole variables, because they compute norms or
/// treat variables as matrices. Errors: as optimizer_slots.
bool is_elementwise(const OptimizerSettings& settings);

/// Makes the optimiser of `device`. `parameters` must have the slots optimizer_slots(settings). `inputs` contains the
/// scalars of each step. `parameters` and `inputs` must outlive the optimiser. `arithmetic`: number format of the
/// products of a muon rule on a GPU. All other computation is float32. Errors: as check_variables.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                          Device& device, const StepInputs& inputs,
                                          Arithmetic arithmetic = Arithmetic::fp32);

/// Does the same as make_optimizer, but requires parameters in host memory. Errors: as make_optimizer; failed
/// (is_elementwise is false for the rule).
std::unique_ptr<ElementwiseOptimizer> make_elementwise_optimizer(const OptimizerSettings& settings,
                                                                 const ParameterStore& parameters,
                                                                 const StepInputs& inputs);

/// Calls ElementwiseOptimizer::update_range for parts of the range on all threads.
void update_on_all_threads(ElementwiseOptimizer& optimizer, std::size_t first, std::span<const float> gradients);

/// The steps [first, end) in which a variable is trained. The variable's group sets them.
struct TrainedSteps {
  std::int64_t first = 0, end = 0;
  bool contain(std::int64_t step) const { return first <= step && step < end; }
};
/// Returns one entry per variable. Errors: as check_variables.
std::vector<TrainedSteps> trained_steps(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables);

/// Checks that the settings fit the variables. Errors: as check_groups; usage (a muon rule finds no hidden matrix; a
/// group requests muon for a vector; a pattern of decay_exclude matches no variable, or matches a variable for which a
/// group states a weight decay; a layer decay is set, but the network has no blocks).
void check_variables(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables);

// Lookahead (LookaheadSettings), on CPU and GPU. The lookahead changes all variables, including frozen variables, and
// all buffers of the network. cifar10-airbench (legacy/airbench94.py) uses `every` 5, decay 0.95^5 and power 3.

/// Returns the lookahead's factor 1 - a after `updates` updates, or a negative number if no lookahead is due. If the
/// factor is 0, the slow copies do not change, and the values become equal to the slow copies. Errors: failed (the
/// power is set, but the number of steps is unknown).
double lookahead_part(const LookaheadSettings& settings, std::int64_t updates);

CARILLON_HOST_DEVICE inline bool looks_ahead(const StepScalars& scalars) {
  return scalars.at[lookahead_scalar] >= 0.0f;
}

/// Applies the lookahead to one element. Call it only in steps in which looks_ahead is true. If a value equals its slow
/// copy, both keep their bits. If the scalar is 0, the slow copy does not change.
CARILLON_HOST_DEVICE inline void look_ahead(const StepScalars& scalars, float& value, float& slow) {
  slow = std::fma(scalars.at[lookahead_scalar], value - slow, slow);
  value = slow;
}

/// The kernel of BufferLookahead: applies the lookahead to one element of the buffers.
struct LookAheadElement {
  float *values = nullptr, *slow = nullptr;
  StepTable table;
  StepEnd end;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const StepScalars scalars = table.header().scalars;
    if (end.allows_update() && looks_ahead(scalars)) look_ahead(scalars, values[i], slow[i]);
  }
};

/// The lookahead of a network's buffers. The optimiser applies the lookahead of the variables. Does nothing if the
/// settings have no lookahead or the network has no buffers.
class BufferLookahead {
 public:
  /// `buffers`, `device` and `inputs` must outlive this object.
  BufferLookahead(const LookaheadSettings& settings, const BufferStore& buffers, Device& device,
                  const StepInputs& inputs);

  /// Returns the slow copies. The vector is empty if there is no lookahead.
  const BufferStore& slow() const { return slow_; }
  /// Sets the slow copies to the buffers' present values.
  void begin();
  /// Does the same as `begin`, but only for buffers that no op changes (AcrossRanks::equal). Afterwards, lookaheads do
  /// not change these buffers, because each buffer equals its slow copy.
  void begin_equal();
  /// Enqueues the step's lookahead. It changes the buffers only if `end` allows the update. Call it after the forward
  /// pass and before the step's last kernel.
  void enqueue(const StepEnd& end);

 private:
  const BufferStore& buffers_;
  Device& device_;
  const StepInputs& inputs_;
  BufferStore slow_;
};

// Scaling of flat arrays.

struct ScaleElement {
  float* values = nullptr;
  float factor = 1.0f;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { values[i] = rounded_product(values[i], factor); }
};

/// Enqueues values[i] <- values[i] * factor on the device's stream. The factor Communicator::result_scale turns the
/// sums of an all-reduce into means. `values`: in the device's memory.
void enqueue_scale(std::span<float> values, float factor, Device& device);

// CUDA builds only: enqueues `kernel` for `count` elements.
void enqueue_lookahead_cuda(const LookAheadElement& kernel, std::size_t count, Stream& stream);
void enqueue_scale_cuda(const ScaleElement& kernel, std::size_t count, Stream& stream);

}  // namespace carillon
