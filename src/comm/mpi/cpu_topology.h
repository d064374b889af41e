// CpuTopology: the CPUs and cores of a host, and the CPUs that a thread may run on. Wraps hwloc.
#pragma once

#include <hwloc.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "carillon/core/handle.h"

namespace carillon {

class CpuTopology {
 public:
  /// The topology of this host, or the one that `description` states in hwloc's synthetic form ("pack:1 core:4 pu:2").
  /// Errors: failed.
  explicit CpuTopology(const std::string& description = {});

  /// The CPUs on which the main thread of `process`, or the calling thread, may run, in ascending order. Empty if the
  /// system does not report them.
  std::vector<int> allowed_cpus(pid_t process) const;
  std::vector<int> allowed_cpus() const;
  /// Binds the calling thread. If the system refuses (a sandbox), the thread stays unbound.
  void bind_to(const std::vector<int>& cpus) const;
  /// The number of physical cores that the hardware threads `cpus` belong to. A CPU without a known core counts as one.
  int core_count(const std::vector<int>& cpus) const;

 private:
  Handle<hwloc_topology_t, &hwloc_topology_destroy> topology_;
};

}  // namespace carillon
