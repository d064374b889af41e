// UpdateRule: how an optimiser changes one element; the loops over all of them, on a CPU and on a GPU, are the same for
// every rule.
//
//   static constexpr std::string_view name;                            as in OptimizerSettings::rule
//   static constexpr std::array<std::string_view, n> slots;            what it keeps, zero at the start
//   static void set_scalars(settings, step, StepScalars&);             its own, from first_rule_scalar on
//   CARILLON_HOST_DEVICE static void update(const StepScalars&, float l2_factor, float gradient, float& value,
//                                           float* slots);             slots: [n] of this element; zeros stay zeros
//
// `gradient` is without L2: the rule adds l2_factor * value where its paper says. `step` counts from 0. Scalars from
// first_rule_scalar to StepScalars::count - 1 are the rule's. The gaps of the flat arrays hold zeros, and stay so.
#pragma once

#include <cmath>
#include <concepts>
#include <string_view>

#include "carillon/core/host_device.h"
#include "carillon/optim/optimizer.h"

namespace carillon {

template <typename R>
concept UpdateRule = requires(const OptimizerSettings& settings, StepScalars& scalars, float& value, float* slots) {
  { R::name } -> std::convertible_to<std::string_view>;
  { R::slots.size() } -> std::convertible_to<std::size_t>;
  R::set_scalars(settings, std::int64_t{}, scalars);
  R::update(scalars, 0.0f, 0.0f, value, slots);
};

/// Rule and moving average of one element. Fused, so that every processor rounds it alike.
template <UpdateRule Rule>
CARILLON_HOST_DEVICE inline void update_element(const StepScalars& scalars, float l2_factor, float gradient,
                                                float& value, float& average, float* slots) {
  Rule::update(scalars, l2_factor, gradient, value, slots);
  average = std::fma(scalars.at[average_decay_scalar] - 1.0f, average - value, average);
}

}  // namespace carillon
