// StepEnd: how a step ends: whether its update is made, and, on a GPU, what its last kernel leaves for the host.
#pragma once

#include <cmath>

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

struct StepEnd {
  const float* sums = nullptr;  ///< [step_sum_count], averaged
  StepProgress progress;        ///< of a GPU

  /// Variables stay as they are where the averaged loss is not finite.
  CARILLON_HOST_DEVICE bool allows_update() const { return std::isfinite(sums[cross_entropy_sum]); }

  /// For one thread of each of the `blocks` blocks of a step's last kernel, after all else: the last block notes the
  /// outcome and counts the step, when no block reads the step's header any more.
  CARILLON_HOST_DEVICE void finish_block(int blocks) const {
    if (fetch_increment(progress.blocks_done) + 1 != static_cast<std::uint32_t>(blocks)) return;
    progress.outcomes[*progress.step_counter & (progress.capacity - 1)] = {sums[cross_entropy_sum], sums[pause_sum]};
    *progress.blocks_done = 0;
    *progress.step_counter += 1;
  }
};

}  // namespace carillon
