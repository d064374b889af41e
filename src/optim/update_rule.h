// UpdateRule: how an optimiser updates one element. The loops over elements, on CPU and GPU, are the same for every
// rule.
//
//   static constexpr std::string_view name;                            as in OptimizerSettings::rule
//   static constexpr std::array<std::string_view, n> options;          the options that set its constants, as on the
//                                                                      command line: "adam-beta1"
//   static constexpr std::array<std::string_view, n> slots;            its state, initially zero
//   static void set_scalars(settings, StepScalars&);                   its scalars, from first_rule_scalar on
//   CARILLON_HOST_DEVICE static void set_age(StepScalars&, updates);   scalars that depend on the number of updates
//   CARILLON_HOST_DEVICE static void update(                           state: the slots of this element, [n]
//       const StepScalars&, const UpdateFactors&, float gradient, float& value, float* state);
//
// `gradient` does not contain L2 and weight decay: the rule adds factors.l2 * value, and applies weight decay in the
// way that its paper describes. The rule owns the scalars from first_rule_scalar to StepScalars::count - 1. The padding
// of the flat arrays holds zeros, and `update` must keep zeros. Sums of products use std::fma only, so that every
// processor rounds in the same way. No two rules have equal slot names, because the slot names identify the rule of a
// checkpoint.
#pragma once

#include <cmath>
#include <concepts>
#include <string_view>

#include "carillon/core/host_device.h"
#include "src/optim/optimizer.h"
#include "src/optim/update_factors.h"

namespace carillon {

template <typename R>
concept UpdateRule = requires(const OptimizerSettings& settings, StepScalars& scalars, const UpdateFactors& factors,
                              float& value, float* slots) {
  { R::name } -> std::convertible_to<std::string_view>;
  { R::options.size() } -> std::convertible_to<std::size_t>;
  { R::slots.size() } -> std::convertible_to<std::size_t>;
  R::set_scalars(settings, scalars);
  R::set_age(scalars, std::int64_t{});
  R::update(scalars, factors, 0.0f, value, slots);
};

/// A rule that scales the learning rate of each variable by a ratio of two norms, the norm of the variable and the norm
/// of a direction:
///   CARILLON_HOST_DEVICE static float direction(scalars, factors, gradient, value, slots)
///   CARILLON_HOST_DEVICE static double ratio(scalars, factors, value_norm, direction_norm)    norms are above 0
/// `direction` runs first, once per element, and may update the slots. Then `update` runs; its factors.rate is
/// multiplied by the ratio.
template <typename R>
concept NormedRule = UpdateRule<R> && requires(const StepScalars& scalars, const UpdateFactors& factors, float* slots) {
  { R::direction(scalars, factors, 0.0f, 0.0f, slots) } -> std::same_as<float>;
  { R::ratio(scalars, factors, 1.0, 1.0) } -> std::same_as<double>;
};

/// A rule that treats some variables as matrices. If factors.orthogonal is true, the optimiser orthogonalises
/// `direction` with newton_schulz.h, and `update` receives the result in place of the gradient. `direction` is declared
/// as for a NormedRule.
template <typename R>
concept MatrixRule = UpdateRule<R> && R::orthogonalizes;

/// True if a rule applies weight decay only to matrices. A group can still set the decay of a vector. If
/// OptimizerSettings::decay_exclude contains no_decay_exclusion, the rule decays all variables. The rule declares this
/// as:
///   static constexpr bool decays_vectors = false;                     absent: it decays all variables
template <typename R>
inline constexpr bool decays_matrices_only = [] {
  if constexpr (requires { R::decays_vectors; }) return !R::decays_vectors;
  return false;
}();

/// A rule that updates each element independently of all other elements.
template <typename R>
concept ElementwiseRule = UpdateRule<R> && !NormedRule<R> && !MatrixRule<R>;

/// Two sums over elements of a variable: the squares of the values, and the squares of the directions.
struct Squares {
  double value = 0.0, direction = 0.0;

  CARILLON_HOST_DEVICE void add(float v, float d) {
    value = std::fma(static_cast<double>(v), static_cast<double>(v), value);
    direction = std::fma(static_cast<double>(d), static_cast<double>(d), direction);
  }
};

/// Returns the variable's ratio, or 1 if the variable has no ratio or one of the norms is 0.
template <NormedRule Rule>
CARILLON_HOST_DEVICE inline float ratio_of(const StepScalars& scalars, const UpdateFactors& factors,
                                           const Squares& squares) {
  if (!factors.has_ratio || !(squares.value > 0.0 && squares.direction > 0.0)) return 1.0f;
  return static_cast<float>(Rule::ratio(scalars, factors, std::sqrt(squares.value), std::sqrt(squares.direction)));
}

/// Returns the factor sqrt(out) / |w| that normalises the weights w, or 1 if |w| is 0. `squares`: the sums over the
/// variable w.
CARILLON_HOST_DEVICE inline float normalizing_factor(std::int64_t out, const Squares& squares) {
  return squares.value > 0.0 ? static_cast<float>(std::sqrt(static_cast<double>(out) / squares.value)) : 1.0f;
}

/// Computes the step's scalars for one variable. The updates of the variable are counted from the first step that
/// trains it.
template <UpdateRule Rule>
CARILLON_HOST_DEVICE inline StepScalars scalars_of(const StepScalars& of_step, const UpdateFactors& factors) {
  StepScalars scalars = of_step;
  if (factors.first_step > 0) Rule::set_age(scalars, of_step.step - factors.first_step);
  return scalars;
}

/// Applies the lookahead and the moving average to one element. For a frozen variable, these are the only changes.
/// `average` is null if there are no moving averages. `slow` is null if looks_ahead is false.
CARILLON_HOST_DEVICE inline void update_copies(const StepScalars& scalars, float& value, float* average, float* slow) {
  if (slow != nullptr) look_ahead(scalars, value, *slow);
  if (average != nullptr) *average = std::fma(scalars.at[average_decay_scalar] - 1.0f, *average - value, *average);
}

/// Applies the rule, the lookahead and the moving average to one element.
template <UpdateRule Rule>
CARILLON_HOST_DEVICE inline void update_element(const StepScalars& scalars, const UpdateFactors& factors,
                                                float gradient, float& value, float* average, float* slots,
                                                float* slow = nullptr) {
  Rule::update(scalars, factors, gradient, value, slots);
  update_copies(scalars, value, average, slow);
}

}  // namespace carillon
