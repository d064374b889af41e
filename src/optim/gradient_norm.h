// GradientNorm: the global norm of a step's gradient, for --clip-norm. In the host's memory (GPU:
// gradient_norm_kernels.h).
//
//   norm = sqrt(sum over all variables that the step trains of |g + l2_factor * w|^2)        g: mean gradient
//
// This is the gradient of the whole loss, L2 loss included, before weight decay: the one that PyTorch's clip_grad_norm_
// sees after the backward pass.
//
// Squares are summed in double precision: in blocks of sum_block_floats elements of the flat array, then in one binary
// tree over all blocks. So the bits do not depend on ranks, shards, buckets and threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/optim/clipped_norm.h"
#include "src/optim/update_rule.h"

namespace carillon {

class GradientNorm {
 public:
  /// The number of blocks of `count` elements.
  static std::size_t block_count(std::size_t count) { return (count + sum_block_floats - 1) / sum_block_floats; }

  /// `parameters`, and `inputs` with the step's number, outlive this. Errors: as check_variables.
  GradientNorm(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs);

  /// The number of blocks of the flat array.
  std::size_t block_count() const { return block_count(parameters_.layout().total()); }
  /// The sum of squares of the block that begins at `first`, a multiple of sum_block_floats. `means`: its mean
  /// gradients. Several threads may call it concurrently.
  double square_sum(std::size_t first, std::span<const float> means) const;
  /// From the sums of all blocks.
  ClippedNorm of_blocks(std::span<const double> square_sums) const;
  /// From the gradients of `parameters`, which must be means. On all threads.
  ClippedNorm of_gradients();

 private:
  const ParameterStore& parameters_;
  const StepInputs& inputs_;
  std::vector<UpdateFactors> factors_;  ///< [variable]
  double limit_;
  std::vector<double> square_sums_;  ///< [block], of of_gradients
};

}  // namespace carillon
