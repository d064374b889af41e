// What preflight tells of averaging.
#pragma once

#include <string>

#include "src/comm/allreduce/communicator.h"
#include "src/train/preflight/preflight.h"

namespace carillon {

/// Latency and bandwidth of averaging the subject's gradients: a line or two, the same on all ranks. Collective.
/// Errors: failed (wrong means).
std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator);

}  // namespace carillon
