// NonfiniteReport: ends a run after a loss that is not finite, and reports the cause (--on-nan report).
//
// The update of the step was refused (graph/step_end.h), so the variables are unchanged and each rank replays its part
// of the step (replay.h). One rank reports: the rank with the earliest infinity or NaN in the forward pass or, if there
// is none, in the backward pass; the lowest of several. A synchronised batch norm spreads a NaN of one rank to all.
#pragma once

#include <string>

#include "carillon/core/sample.h"
#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// The last step, which changed no variables.
struct DivergedStep {
  const Tower& tower;
  Device& device;
  BuildSettings settings;  ///< settings of the tower's graph
  const Batch& batch;      ///< this rank's batch
  const Dataset& dataset;  ///< contains the batch's records
};

/// "Model diverged with loss = NaN at step 5"
std::string nonfinite_line(std::int64_t step, double loss);

/// Throws failed on all ranks with `line`, the first op with a value that is not finite, and its samples. Collective.
[[noreturn]] void fail_with_cause(const std::string& line, const DivergedStep& step, const Mpi& mpi);
/// The same if the task's loss is finite and its L2 part is not.
[[noreturn]] void fail_with_l2_cause(const std::string& line, const Tower& tower, Device& device, const Mpi& mpi);

}  // namespace carillon
