// NonfiniteReport: the end of a run whose loss is not finite, and what is told of its cause (--on-nan report).
//
// The step's update was refused (graph/step_end.h), so its variables are there still: each rank replays its part of it
// (replay.h). Of the ranks that find an infinity or a NaN in the forward pass, else in the backward pass, the one whose
// comes first in the pass tells, of several the lowest: a batch norm of all ranks hands on to all what one met.
#pragma once

#include <string>

#include "carillon/core/batch.h"
#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// A step that was taken last, and not updated.
struct DivergedStep {
  const Tower& tower;
  Device& device;
  BuildSettings settings;  ///< the tower's
  const Batch& batch;      ///< this rank's
  const Dataset& dataset;  ///< of its records
};

/// "Model diverged with loss = NaN at step 5"
std::string nonfinite_line(std::int64_t step, double loss);

/// Throws failed on all ranks: `line`, and the first op, its value and the samples that are not finite. Collective.
[[noreturn]] void fail_with_cause(const std::string& line, const DivergedStep& step, const Mpi& mpi);
/// The same if the task's loss is finite and its L2 part is not.
[[noreturn]] void fail_with_l2_cause(const std::string& line, const Tower& tower, Device& device, const Mpi& mpi);

}  // namespace carillon
