// The ranks of a *_mpi_test.
#pragma once

#include <chrono>
#include <thread>

#include "src/comm/mpi/mpi.h"

namespace carillon::testing {

Mpi& mpi_world();

/// Delays rank `late`, so that the other ranks wait for it.
inline void be_late(int late) {
  if (mpi_world().rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace carillon::testing
