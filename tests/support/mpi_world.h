// The ranks that a *_mpi_test runs on.
#pragma once

#include "carillon/comm/mpi.h"

namespace carillon::testing {

const Mpi& mpi_world();

}  // namespace carillon::testing
