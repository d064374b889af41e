// Agreement: what all ranks must have alike, and failures that all of them have found out.
#pragma once

#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/report/field.h"

namespace carillon {

/// Throws usage on all ranks unless each has the same `fields`; names the first that differs, and the ranks.
/// Collective.
void require_equal_on_all_ranks(const Mpi& mpi, const std::vector<Field>& fields);

/// Throws SharedError on rank 0 and PeerFailed elsewhere: for what every rank has found out alike.
[[noreturn]] void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message);

}  // namespace carillon
