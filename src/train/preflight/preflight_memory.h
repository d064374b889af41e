// Memory that the ranks of a host share, for preflight.
#pragma once

#include <cstddef>
#include <string>

#include "src/comm/mpi/mpi.h"

namespace carillon {

/// One line on rank 0: the shared memory that a training allocates per rank, and its place. Maps it for a moment. Empty
/// if a rank shares none. Collective. Errors: io (no place has room).
std::string try_shared_memory(std::size_t bytes, const Mpi& mpi);

}  // namespace carillon
