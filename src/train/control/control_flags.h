// ControlFlags: what a rank asks all of them to do after a step. A step carries one flag of each rank, that it asks for
// something (TowerStep::request_sync); what it is they tell one another in the pause behind that step.
#pragma once

#include "src/comm/mpi/mpi.h"

namespace carillon {

struct ControlFlags {
  bool save = false;     ///< to save and go on
  bool stop = false;     ///< to save and end
  bool give_up = false;  ///< to save what can be saved and end: checkpoints keep failing

  bool any() const { return save || stop || give_up; }
};

/// What any rank asks for. Collective.
ControlFlags requested_by_any(const Mpi& mpi, const ControlFlags& own);

}  // namespace carillon
