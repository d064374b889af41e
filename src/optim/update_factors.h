// UpdateFactors: constants of each variable in the update, computed from the variable's spec and the groups of
// OptimizerSettings. ClippedNorm: the factor of all gradients of a step.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/graph/parameters.h"
#include "carillon/optim/optimizer_settings.h"

namespace carillon {

/// Constants of one variable in the update.
struct UpdateFactors {
  float l2 = 0.0f;            ///< ParameterSpec::l2_factor
  float rate = 1.0f;          ///< factor of the learning rate
  float weight_decay = 0.0f;  ///< coupled or decoupled, depending on the rule
  bool has_ratio = false;     ///< whether a NormedRule computes a ratio: variables of two or more dimensions
  bool orthogonal = false;    ///< whether a MatrixRule orthogonalises its direction
  float scale = 1.0f;         ///< factor of the orthogonalised direction
  float kept = 1.0f;          ///< factor of the variable before that step (OptimizerSettings::muon_normalizes)
  std::int64_t first_step = 0, end_step = std::numeric_limits<std::int64_t>::max();  ///< trained in [first, end)

  CARILLON_HOST_DEVICE bool trains_at(std::int64_t step) const { return step >= first_step && step < end_step; }
};

/// Returns one entry per variable. Errors: as check_variables (optimizer.h).
std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables);

/// Layer-wise decay of the learning rate: the factor of each variable's learning rate. Layers near the input learn more
/// slowly than the last layer.
///
///   rate of layer l = decay^(L - l)      l = 0 ... L
///
/// The layers of a network with blocks: layer 0 has all variables before the first block (stem, patches, tokens). Then
/// each block is a layer, which includes the variables between it and the previous block. Layer L has all variables
/// after the last block. Source: Bao, Dong, Piao, Wei, "BEiT: BERT pre-training of image transformers", 2022.
///
/// `variables`: in the order of the network. Errors: usage (decay is not 1 and the network has no blocks).
std::vector<double> layer_rates(double decay, const std::vector<ParameterSpec>& variables);

/// The norm of a step's gradient, and the factor by which the gradient is clipped.
///
///   factor = min(1, limit / (norm + 1e-6))
///
/// If the norm is not finite, the factor is 1, so that only the variables with non-finite gradients become non-finite.
/// Source: PyTorch, clip_grad_norm_.
struct ClippedNorm {
  double norm = 0.0;  ///< before clipping
  float factor = 1.0f;
};

/// The factor of a step's gradient. `clipped`: in device memory; null: the gradient is not clipped.
CARILLON_HOST_DEVICE inline float clip_factor(const ClippedNorm* clipped) {
  return clipped == nullptr ? 1.0f : clipped->factor;
}

/// `squares`: the squared norm.
CARILLON_HOST_DEVICE inline ClippedNorm clipped_norm(double squares, double limit) {
  const double norm = std::sqrt(squares), factor = limit / (norm + 1e-6);
  return {norm, std::isfinite(norm) && factor < 1.0 ? static_cast<float>(factor) : 1.0f};
}

}  // namespace carillon
