// The factors of an update. UpdateFactors contains the constants of each variable. ClippedNorm contains the factor of
// all gradients of a step. GradientNorm computes the ClippedNorm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/core/reduction.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"

namespace carillon {

/// Constants of one variable in the update, computed from the variable's spec and the groups of OptimizerSettings.
struct UpdateFactors {
  float l2 = 0.0f;            ///< ParameterSpec::l2_factor
  float rate = 1.0f;          ///< factor of the learning rate
  float weight_decay = 0.0f;  ///< weight decay; the rule decides whether it is coupled or decoupled
  bool has_ratio = false;     ///< true: a NormedRule computes a ratio for the variable, which has two or more
                              ///< dimensions
  bool orthogonal = false;    ///< true: a MatrixRule orthogonalises the variable's direction
  float scale = 1.0f;         ///< factor of the orthogonalised direction
  float kept = 1.0f;          ///< factor that multiplies the variable before the update
                              ///< (OptimizerSettings::muon_normalizes)
  /// The variable is trained in steps [first_step, end_step).
  std::int64_t first_step = 0, end_step = std::numeric_limits<std::int64_t>::max();

  CARILLON_HOST_DEVICE bool trains_at(std::int64_t step) const { return step >= first_step && step < end_step; }
};

/// Returns one entry per variable. Errors: as check_variables (optimizer.h).
std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables);

/// Layer-wise decay of the learning rate: the factor of each variable's learning rate. Layers near the input have a
/// lower learning rate than the last layer.
///
///   rate of layer l = decay^(L - l)      l = 0 ... L
///
/// The layers of a network with blocks: layer 0 has all variables before the first block (stem, patches, tokens). Then
/// each block is a layer, which includes the variables between the previous block and this block. Layer L has all
/// variables after the last block. Source: Bao, Dong, Piao, Wei, "BEiT: BERT pre-training of image transformers", 2022.
///
/// `variables`: in the order of the network. Errors: usage (decay is not 1, but the network has no blocks).
std::vector<double> layer_rates(double decay, const std::vector<ParameterSpec>& variables);

/// The norm of a step's gradient, and the factor by which the gradient is clipped.
///
///   factor = min(1, limit / (norm + 1e-6))
///
/// If the norm is not finite, the factor is 1. Without this exception, all variables would become non-finite, not only
/// the variables with non-finite gradients. Source: PyTorch, clip_grad_norm_.
struct ClippedNorm {
  double norm = 0.0;  ///< norm of the gradient before clipping
  float factor = 1.0f;
};

/// Returns the factor of a step's gradient. `clipped`: in device memory; null if the gradient is not clipped.
CARILLON_HOST_DEVICE inline float clip_factor(const ClippedNorm* clipped) {
  return clipped == nullptr ? 1.0f : clipped->factor;
}

/// Makes a ClippedNorm. `squares`: square of the norm before clipping. `limit`: OptimizerSettings::clip_norm.
CARILLON_HOST_DEVICE inline ClippedNorm clipped_norm(double squares, double limit) {
  const double norm = std::sqrt(squares), factor = limit / (norm + 1e-6);
  return {norm, std::isfinite(norm) && factor < 1.0 ? static_cast<float>(factor) : 1.0f};
}

// Norms of variables and gradients in the host's memory: the L2 loss, and GradientNorm for --clip-norm. On a GPU,
// kernels of the update compute these norms (update_kernels.h, norm_kernels.h).
//
//   l2_loss = sum over variables of l2_factor * sum(w^2) / 2
//   norm = sqrt(sum over all variables that the step trains of |g + l2_factor * w|^2)        g: mean gradient
//
// `norm` is the norm of the gradient of the whole loss: the gradient includes the L2 loss and excludes weight decay.
// PyTorch's clip_grad_norm_ uses the same gradient.
//
// Squares are summed in double precision: in blocks of sum_block_floats elements of the flat array, then in one binary
// tree over all blocks. Therefore the bits do not depend on the numbers of ranks, shards, buckets and threads.

/// Returns the sum of the squares of `values`, computed in double precision and in a fixed order.
double sum_of_squares(const float* values, std::size_t count);

/// Returns the L2 loss of the present values, computed in double precision and in a fixed order.
double l2_loss(const ParameterStore& parameters);

/// Calls body(variable, begin, end) for the elements of each variable in [first, last) of the flat arrays, in ascending
/// order.
template <typename Body>
void for_each_variable_in(const ParameterLayout& layout, std::size_t first, std::size_t last, const Body& body) {
  const auto ends_before = [&](int variable) { return layout.offset(variable) + layout.count(variable) <= first; };
  auto variable = std::ranges::partition_point(layout.order(), ends_before);
  for (; variable != layout.order().end() && layout.offset(*variable) < last; ++variable) {
    const std::size_t end = layout.offset(*variable) + layout.count(*variable);
    body(*variable, std::max(first, layout.offset(*variable)), std::min(last, end));
  }
}

class GradientNorm {
 public:
  /// Returns the number of blocks for `count` elements.
  static std::size_t block_count(std::size_t count) { return (count + sum_block_floats - 1) / sum_block_floats; }

  /// `inputs` contains the number of the step. `parameters` and `inputs` must outlive this object. Errors: as
  /// check_variables.
  GradientNorm(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs);

  /// Returns the number of blocks of the flat array.
  std::size_t block_count() const { return block_count(parameters_.layout().total()); }
  /// Returns the sum of squares of the block that begins at `first`, a multiple of sum_block_floats. `means`: mean
  /// gradients of the block. Several threads may call it concurrently.
  double square_sum(std::size_t first, std::span<const float> means) const;
  /// Computes norm and factor from the sums of all blocks.
  ClippedNorm of_blocks(std::span<const double> square_sums) const;
  /// Computes norm and factor from the gradients of `parameters`, which must be means. Uses all threads.
  ClippedNorm of_gradients();

 private:
  const ParameterStore& parameters_;
  const StepInputs& inputs_;
  std::vector<UpdateFactors> factors_;  ///< [variable]
  double limit_;
  std::vector<double> square_sums_;  ///< [block]: the memory to which of_gradients() writes
};

}  // namespace carillon
