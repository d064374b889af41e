// CpuTopology: a host's CPUs and cores, and which CPUs a thread may run on, as hwloc tells.
#pragma once

#include <hwloc.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "carillon/core/handle.h"

namespace carillon {

class CpuTopology {
 public:
  /// This host's; with a `description` in hwloc's synthetic form ("pack:1 core:4 pu:2") that of another.
  /// Errors: failed.
  explicit CpuTopology(const std::string& description = {});

  /// The CPUs on which a process's main thread, or the calling thread, may run, ascending; empty when the system does
  /// not tell.
  std::vector<int> allowed_cpus(pid_t process) const;
  std::vector<int> allowed_cpus() const;
  /// Binds the calling thread; a system that refuses (a sandbox) leaves it as it was.
  void bind_to(const std::vector<int>& cpus) const;
  /// How many cores `cpus`, hardware threads, belong to; one that the system knows no core of counts as one.
  int core_count(const std::vector<int>& cpus) const;

 private:
  Handle<hwloc_topology_t, &hwloc_topology_destroy> topology_;
};

}  // namespace carillon
