// RunRequests: what a rank asks all of them to do after a step. A step carries one flag of each rank, that it asks for
// something (TowerStep::request_pause); what it is they tell one another in the pause behind that step.
#pragma once

#include "carillon/comm/mpi.h"

namespace carillon {

struct RunRequests {
  bool save = false;     ///< to save and go on
  bool stop = false;     ///< to save and end
  bool give_up = false;  ///< to save what can be saved and end: checkpoints keep failing

  bool any() const { return save || stop || give_up; }
};

/// What any rank asks for. Collective.
RunRequests asked_by_any(const Mpi& mpi, const RunRequests& own);

}  // namespace carillon
