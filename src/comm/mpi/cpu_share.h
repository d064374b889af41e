// CPU share: which cores a rank computes on, so that the ranks of a host neither overlap nor leave cores idle.
#pragma once

#include <vector>

#include "src/comm/mpi/mpi.h"

namespace carillon {

struct CpuShare {
  std::vector<int> cpus;  ///< Linux CPU numbers this rank is bound to
  int thread_count = 1;   ///< one a physical core of them, or what was asked for
};

/// Collective. The launcher's binding is kept where it gives each rank of the host CPUs of its own; unbound ranks, and
/// ranks that mpirun bound by its own default (which leaves cores idle), divide the host's usable CPUs among them.
/// Binds the calling thread, and so those that it starts, and sets its OpenMP threads. `requested_threads` > 0
/// overrides their count.
CpuShare take_cpu_share(const Mpi& mpi, int requested_threads);

/// The part of `cpus` for process `index` of `count`: contiguous, at least one, shared only when cpus are too few.
std::vector<int> divide_cpus(const std::vector<int>& cpus, int index, int count);

}  // namespace carillon
