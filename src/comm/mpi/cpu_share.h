// CpuShare: the cores that a rank computes on. The ranks of a host divide its cores: none overlap, none stay idle.
#pragma once

#include <vector>

#include "src/comm/mpi/mpi.h"

namespace carillon {

struct CpuShare {
  std::vector<int> cpus;  ///< Linux CPU numbers this rank is bound to
  int thread_count = 1;   ///< one per physical core in `cpus`, or the requested number
};

/// Chooses and binds this rank's CPUs. If the launcher gave each rank of the host its own CPUs, that binding is kept.
/// Unbound ranks divide the host's usable CPUs; so do ranks with mpirun's default binding, which leaves cores idle.
/// Binds the calling thread and the threads that it starts later, and sets the number of OpenMP threads.
/// `requested_threads` > 0 overrides that number. Collective.
CpuShare take_cpu_share(const Mpi& mpi, int requested_threads);

/// The part of `cpus` for process `index` of `count`: contiguous and at least one CPU. Processes share a CPU only if
/// there are fewer CPUs than processes.
std::vector<int> divide_cpus(const std::vector<int>& cpus, int index, int count);

}  // namespace carillon
