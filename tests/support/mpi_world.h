// The ranks of a test program *_mpi_test.
#pragma once

#include <chrono>
#include <thread>

#include "src/comm/mpi/mpi.h"

namespace carillon::testing {

Mpi& mpi_world();

/// Delays rank `late` by 20 ms, so that the other ranks must wait for it.
inline void be_late(int late) {
  if (mpi_world().rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace carillon::testing
