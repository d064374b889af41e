// muon: momentum with orthogonalised matrices, for hidden layers. All other variables use another rule.
//
//   g <- g + l2_factor * w
//   v <- momentum * v + (1 - momentum) * g
//   O <- newton_schulz((1 - momentum) * g + momentum * v)             src/optim/newton_schulz.h
//   w <- w - learning_rate * weight_decay * w - learning_rate * s * O
//
// s = sqrt(max(1, out / in)) for a dense layer, sqrt(max(1, height / width)) for a convolution. muon_normalizes selects
// the variant of cifar10-airbench: the factor (1 - momentum) becomes 1, w <- w * sqrt(out) / |w| replaces weight decay
// (a group may still set a weight decay), and s = 1. UpdateFactors::orthogonal states which variables are hidden.
// Source: Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024;
// github.com/KellerJordan/Muon; github.com/KellerJordan/cifar10-airbench, airbench94_muon.py.
#pragma once

#include <array>
#include <cmath>

#include "src/optim/rules/adam.h"
#include "src/optim/rules/sgd.h"

namespace carillon {

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

/// Muon that uses adamw for the other variables.
struct MuonAdamW : Muon<AdamW> {
  static constexpr std::string_view name = "muon";
  static constexpr std::array<std::string_view, 6> options{"muon-momentum", "muon-steps", "muon-normalize",
                                                           "adam-beta1",    "adam-beta2", "adam-epsilon"};
  static constexpr std::array<std::string_view, 2> slots{"muon_m", "muon_v"};
};

/// Muon that uses nesterov for the other variables.
struct MuonNesterov : Muon<Nesterov> {
  static constexpr std::string_view name = "muon-nesterov";
  static constexpr std::array<std::string_view, 4> options{"muon-momentum", "muon-steps", "muon-normalize", "momentum"};
  static constexpr std::array<std::string_view, 1> slots{"muon_momentum"};
};

}  // namespace carillon
