// Agreement of the ranks: checks that values are equal on all ranks, ends all ranks after a common failure, and
// combines the requests of the ranks.
#pragma once

#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/report/metrics.h"

namespace carillon {

/// Throws usage on all ranks if `fields` are not equal on all ranks. The error names two ranks, and the first field
/// that differs between them. Collective.
void require_equal_on_all_ranks(const Mpi& mpi, const std::vector<Field>& fields);

/// For a failure that every rank has detected: throws SharedError on rank 0 and PeerFailed on all other ranks.
[[noreturn]] void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message);

/// The requests of a rank to all ranks after a step. In each step, a rank sends one flag, which is set if the rank has
/// a request (StepRequest::request_sync). If any rank has a request, all ranks exchange their ControlFlags after that
/// step.
struct ControlFlags {
  bool save = false;     ///< save and continue
  bool stop = false;     ///< save and end
  bool give_up = false;  ///< end, because checkpoints keep failing

  bool any() const { return save || stop || give_up; }
};

/// Combines the requests of all ranks. Collective.
ControlFlags requested_by_any(const Mpi& mpi, const ControlFlags& own);

}  // namespace carillon
