// Measures the averaging of gradients for preflight.
#pragma once

#include <string>

#include "src/comm/allreduce/communicator.h"
#include "src/train/preflight/preflight.h"

namespace carillon {

/// Latency and bandwidth of averaging the subject's gradients: one or two lines, equal on all ranks. Collective.
/// Errors: failed (wrong means).
std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator);

}  // namespace carillon
