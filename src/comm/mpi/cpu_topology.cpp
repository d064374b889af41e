#include "src/comm/mpi/cpu_topology.h"

#include <set>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using CpuSet = Handle<hwloc_bitmap_t, &hwloc_bitmap_free>;

std::vector<int> numbers_in(const CpuSet& set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set.get()); cpu >= 0; cpu = hwloc_bitmap_next(set.get(), cpu)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

CpuTopology::CpuTopology(const std::string& description) {
  hwloc_topology_t topology = nullptr;
  check(hwloc_topology_init(&topology) == 0, "hwloc_topology_init");
  topology_ = Handle<hwloc_topology_t, &hwloc_topology_destroy>(topology);
  if (!description.empty()) {
    check(hwloc_topology_set_synthetic(topology, description.c_str()) == 0, "hwloc_topology_set_synthetic");
  }
  check(hwloc_topology_load(topology) == 0, "hwloc_topology_load");
}

std::vector<int> CpuTopology::allowed_cpus(pid_t process) const {
  const CpuSet set(hwloc_bitmap_alloc());
  if (hwloc_get_proc_cpubind(topology_.get(), process, set.get(), HWLOC_CPUBIND_THREAD) != 0) return {};
  return numbers_in(set);
}

std::vector<int> CpuTopology::allowed_cpus() const {
  const CpuSet set(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology_.get(), set.get(), HWLOC_CPUBIND_THREAD) != 0) return {};
  return numbers_in(set);
}

void CpuTopology::bind_to(const std::vector<int>& cpus) const {
  const CpuSet set(hwloc_bitmap_alloc());
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  static_cast<void>(hwloc_set_cpubind(topology_.get(), set.get(), HWLOC_CPUBIND_THREAD));
}

int CpuTopology::core_count(const std::vector<int>& cpus) const {
  std::set<hwloc_obj_t> cores;
  int without_core = 0;
  for (const int cpu : cpus) {
    const hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology_.get(), static_cast<unsigned>(cpu));
    const hwloc_obj_t core =
        unit == nullptr ? nullptr : hwloc_get_ancestor_obj_by_type(topology_.get(), HWLOC_OBJ_CORE, unit);
    if (core == nullptr) {
      ++without_core;
    } else {
      cores.insert(core);
    }
  }
  return static_cast<int>(cores.size()) + without_core;
}

}  // namespace carillon
