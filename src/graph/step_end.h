// StepEnd: how a step ends: whether its update is made, and, on a GPU, what its last kernel leaves for the host.
#pragma once

#include <cmath>

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

struct StepEnd {
  const float* sums = nullptr;  ///< [step_sum_count], averaged up to result_scale
  StepProgress progress;        ///< of a GPU
  float result_scale = 1.0f;    ///< of gradients and step sums (Communicator::result_scale)

  CARILLON_HOST_DEVICE float mean(float averaged) const { return rounded_product(averaged, result_scale); }

  /// Variables stay as they are where the averaged loss is not finite.
  CARILLON_HOST_DEVICE bool allows_update() const { return std::isfinite(mean(sums[loss_sum])); }

  /// For one thread of each of the `blocks` blocks of a step's last kernel, when the block needs the step's header no
  /// more: whether it is the last block, which may then read what the others have written.
  CARILLON_HOST_DEVICE bool finish_block(int blocks) const {
    return fetch_increment(progress.blocks_done) + 1 == static_cast<std::uint32_t>(blocks);
  }
  /// For one thread of the last block, after all else: notes the outcome and counts the step.
  CARILLON_HOST_DEVICE void finish_step(double l2_loss) const {
    progress.outcomes[*progress.step_counter & (progress.capacity - 1)] = {mean(sums[loss_sum]), mean(sums[sync_sum]),
                                                                           l2_loss};
    *progress.blocks_done = 0;
    *progress.step_counter += 1;
  }
};

}  // namespace carillon
