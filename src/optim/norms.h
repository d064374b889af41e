// Norms of variables and gradients in the host's memory: the L2 loss, and GradientNorm for --clip-norm. On a GPU,
// kernels of the update compute these norms (update_kernels.h, norm_kernels.h).
//
//   l2_loss = sum over variables of l2_factor * sum(w^2) / 2
//   norm = sqrt(sum over all variables that the step trains of |g + l2_factor * w|^2)        g: mean gradient
//
// It is the norm of the gradient of the whole loss, including the L2 loss and excluding weight decay. PyTorch's
// clip_grad_norm_ uses the same gradient: the gradient after the backward pass.
//
// Squares are summed in double precision: in blocks of sum_block_floats elements of the flat array, then in one binary
// tree over all blocks. Therefore the bits do not depend on the numbers of ranks, shards, buckets and threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/optim/update_factors.h"

namespace carillon {

/// The sum of the squares of `values`, in double precision and a fixed order.
double sum_of_squares(const float* values, std::size_t count);

/// The L2 loss of the present values, in double precision and a fixed order.
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
  /// The number of blocks of `count` elements.
  static std::size_t block_count(std::size_t count) { return (count + sum_block_floats - 1) / sum_block_floats; }

  /// `inputs` contains the number of the step. `parameters` and `inputs` outlive this. Errors: as check_variables.
  GradientNorm(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs);

  /// The number of blocks of the flat array.
  std::size_t block_count() const { return block_count(parameters_.layout().total()); }
  /// The sum of squares of the block that begins at `first`, a multiple of sum_block_floats. `means`: mean gradients of
  /// the block. Several threads may call it concurrently.
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
  std::vector<double> square_sums_;  ///< [block], of of_gradients
};

}  // namespace carillon
