// Checks that all ranks have equal values, and reports failures that all ranks detect.
#pragma once

#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/report/metrics.h"

namespace carillon {

/// Throws usage on all ranks unless `fields` are equal on all ranks. The error names the first field that differs, and
/// two ranks. Collective.
void require_equal_on_all_ranks(const Mpi& mpi, const std::vector<Field>& fields);

/// For a failure that every rank has detected: throws SharedError on rank 0 and PeerFailed on the others.
[[noreturn]] void fail_on_all(const Mpi& mpi, ExitCode code, const std::string& message);

}  // namespace carillon
