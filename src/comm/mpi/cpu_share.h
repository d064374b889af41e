// CpuShare: the cores that a rank computes on. The ranks of a host divide its cores: no two ranks share a core, and no
// core stays idle.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"

struct hwloc_topology;

namespace carillon {

struct CpuShare {
  std::vector<int> cpus;  ///< Linux CPU numbers to which this rank is bound
  int thread_count = 1;   ///< see take_cpu_share
  double quota = 0.0;     ///< CPU quota of the control group, in processors; 0: unlimited
};

/// Chooses and binds this rank's CPUs. If the launcher gave each rank of the host its own CPUs, that binding is kept.
/// Unbound ranks divide the host's usable CPUs. Ranks with mpirun's default binding count as unbound, because this
/// binding leaves cores idle. Binds the calling thread and all threads that this thread starts later. Sets the number
/// of OpenMP threads: one per physical core of this rank. If the control group has a CPU quota, the ranks divide the
/// quota, and a rank has at most as many threads as its part of the quota. `requested_threads` > 0 overrides the number
/// of threads. Collective.
CpuShare take_cpu_share(const Mpi& mpi, int requested_threads);

/// Returns the part of `cpus` for process number `index` of `count` processes. The part is contiguous and has at least
/// one CPU. Processes share a CPU only if there are fewer CPUs than processes.
std::vector<int> divide_cpus(const std::vector<int>& cpus, int index, int count);

/// The CPUs and cores of a host, and the CPUs on which a thread may run. Uses hwloc.
class CpuTopology {
 public:
  /// Reads the topology of this host, or the topology that `description` states in hwloc's synthetic form ("pack:1
  /// core:4 pu:2"). Errors: failed.
  explicit CpuTopology(const std::string& description = {});

  /// Returns the CPUs on which the main thread of `process`, or the calling thread, may run, in ascending order.
  /// Returns no CPUs if the system does not report them.
  std::vector<int> allowed_cpus(pid_t process) const;
  std::vector<int> allowed_cpus() const;
  /// Binds the calling thread. If the system refuses, as in a sandbox, the thread stays unbound.
  void bind_to(const std::vector<int>& cpus) const;
  /// Returns the number of physical cores that the hardware threads `cpus` belong to. A CPU without a known core counts
  /// as one.
  int core_count(const std::vector<int>& cpus) const;

 private:
  std::unique_ptr<hwloc_topology, void (*)(hwloc_topology*)> topology_;
};

}  // namespace carillon
