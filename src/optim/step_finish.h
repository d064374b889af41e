// StepFinish: the end of a step's last kernel. It sums the L2 loss of all blocks, if the step reports it, and ends the
// step. The sum is in double precision and a fixed order: elements of a thread, threads, blocks.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "src/graph/step_end.h"

namespace carillon {

/// `threads`: of a block. A kernel runs the phases after it has updated the variables.
template <int threads>
struct StepFinish {
  static constexpr int fold_phase = 0, block_phase = 1, blocks_phase = 2, last_fold_phase = 3, end_phase = 4;
  static constexpr int phases = end_phase + 1;
  static constexpr int parts = 16;  ///< partial sums into which the threads' sums are folded
  static constexpr int max_blocks = 2048;

  struct Shared {
    double sums[threads];  ///< of a thread: the sum of l2_factor * w^2 before the update, if reports_l2
    double of_part[parts];
    bool reports_l2, last_block;
  };

  double* block_sums = nullptr;  ///< [max_blocks]

  /// In an earlier phase than the first that reads Shared.
  CARILLON_HOST_DEVICE static void begin(Shared& shared, const StepHeader& header, int thread) {
    if (thread == 0) shared.reports_l2 = header.reports_l2 != 0;  // no block may read the header after finish_block
  }

  /// `gradient_norm`: as StepEnd::finish_step.
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int blocks, int block, int thread, const StepEnd& end,
                                const double* gradient_norm = nullptr) const {
    if constexpr (phase == block_phase) {
      if (thread != 0) return;
      if (shared.reports_l2) block_sums[block] = total(shared);
      shared.last_block = end.finish_block(blocks);
    } else if constexpr (phase == end_phase) {
      if (thread == 0 && shared.last_block) {
        end.finish_step(shared.reports_l2 ? 0.5 * total(shared) : 0.0,
                        gradient_norm != nullptr ? *gradient_norm : -1.0);
      }
    } else if (shared.reports_l2 && (phase == fold_phase || shared.last_block)) {
      if constexpr (phase == blocks_phase) {
        shared.sums[thread] = 0.0;
        for (int i = thread; i < blocks; i += threads) shared.sums[thread] += block_sums[i];
      } else if (thread < parts) {
        shared.of_part[thread] = 0.0;
        for (int i = thread; i < threads; i += parts) shared.of_part[thread] += shared.sums[i];
      }
    }
  }

 private:
  CARILLON_HOST_DEVICE static double total(const Shared& shared) {
    double sum = 0.0;
    for (const double of_part : shared.of_part) sum += of_part;
    return sum;
  }
};

}  // namespace carillon
