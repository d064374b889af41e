// The kernel of step_sums: one thread.
#pragma once

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"

namespace carillon {

struct StepSumsKernel {
  using Shared = NoShared;
  static constexpr int threads = 1;
  static constexpr int phases = 1;

  const float* loss = nullptr;  ///< []
  StepTable table;
  float* sums = nullptr;  ///< [step_sum_count]

  int blocks() const { return 1; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int /*block*/, int /*thread*/) const {
    sums[cross_entropy_sum] = *loss;
    sums[pause_sum] = table.header().pause;
  }
};

}  // namespace carillon
