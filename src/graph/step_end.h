// StepEnd: the end of a step: whether the update is applied and, on a GPU, what the last kernel writes for the host.
#pragma once

#include <cmath>

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

struct StepEnd {
  const float* sums = nullptr;  ///< [step_sum_count], means after multiplication by result_scale
  StepProgress progress;        ///< GPU only
  float result_scale = 1.0f;    ///< factor of gradients and step sums (Communicator::result_scale)

  CARILLON_HOST_DEVICE float mean(float averaged) const { return rounded_product(averaged, result_scale); }

  /// The update is skipped if the averaged loss is not finite.
  CARILLON_HOST_DEVICE bool allows_update() const { return std::isfinite(mean(sums[loss_sum])); }

  /// One thread of each of the `blocks` blocks of a step's last kernel calls this, after the block's last read of the
  /// step's header. Returns true in the block that finishes last; this block may read the results of all other blocks.
  CARILLON_HOST_DEVICE bool finish_block(int blocks) const {
    return fetch_increment(progress.blocks_done) + 1 == static_cast<std::uint32_t>(blocks);
  }
  /// One thread of the last block calls this after everything else. Writes the outcome and adds 1 to the step counter.
  /// The norm is reported only if the update is applied.
  CARILLON_HOST_DEVICE void finish_step(double l2_loss, double gradient_norm = -1.0) const {
    progress.outcomes[*progress.step_counter & (progress.capacity - 1)] = {
        mean(sums[loss_sum]), mean(sums[sync_sum]), l2_loss, allows_update() ? gradient_norm : -1.0};
    *progress.blocks_done = 0;
    *progress.step_counter += 1;
  }
};

}  // namespace carillon
