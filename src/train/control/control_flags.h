// ControlFlags: the requests of a rank to all ranks after a step. With each step a rank sends one flag: it has a
// request (TowerStep::request_sync). If any rank has one, all ranks exchange their ControlFlags after that step.
#pragma once

#include "src/comm/mpi/mpi.h"

namespace carillon {

struct ControlFlags {
  bool save = false;     ///< save and continue
  bool stop = false;     ///< save and end
  bool give_up = false;  ///< end because checkpoints keep failing

  bool any() const { return save || stop || give_up; }
};

/// The requests of all ranks together. Collective.
ControlFlags requested_by_any(const Mpi& mpi, const ControlFlags& own);

}  // namespace carillon
