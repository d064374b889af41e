#include "src/comm/mpi/cpu_share.h"

#include <fmt/ranges.h>
#include <hwloc.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"
#include "src/core/resources.h"

namespace carillon {
namespace {

using CpuSet = Handle<hwloc_bitmap_t, &hwloc_bitmap_free>;

std::vector<int> numbers_in(const CpuSet& set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set.get()); cpu >= 0; cpu = hwloc_bitmap_next(set.get(), cpu)) cpus.push_back(cpu);
  return cpus;
}

/// True if mpirun 4.x bound this rank by default. If there are at most two ranks and the user chooses no binding,
/// mpirun binds each rank to one core.
bool bound_by_launcher_default() {
  const char* bound = std::getenv("OMPI_MCA_orte_bound_at_launch");
  return bound != nullptr && std::string_view(bound) == "1" &&
         std::getenv("OMPI_MCA_hwloc_base_binding_policy") == nullptr;
}

/// Adds the CPU numbers in `text` to `cpus`. Returns false if one of them is already in `cpus`.
bool add_cpus(const std::string& text, std::set<int>& cpus) {
  std::istringstream stream(text);
  bool all_new = true;
  for (int cpu = 0; stream >> cpu;) all_new = cpus.insert(cpu).second && all_new;
  return all_new;
}

}  // namespace

CpuTopology::CpuTopology(const std::string& description) : topology_(nullptr, hwloc_topology_destroy) {
  hwloc_topology_t topology = nullptr;
  check(hwloc_topology_init(&topology) == 0, "hwloc_topology_init");
  topology_.reset(topology);
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

std::vector<int> divide_cpus(const std::vector<int>& cpus, int index, int count) {
  const std::size_t total = cpus.size(), begin = total * index / count;
  const std::size_t end = std::max(begin + 1, total * (index + 1) / count);
  return {cpus.begin() + static_cast<std::ptrdiff_t>(begin), cpus.begin() + static_cast<std::ptrdiff_t>(end)};
}

CpuShare take_cpu_share(const Mpi& mpi, int requested_threads) {
  const CpuTopology topology;
  std::vector<int> mine = bound_by_launcher_default() ? topology.allowed_cpus(getppid()) : topology.allowed_cpus();
  if (mine.empty()) mine = topology.allowed_cpus();

  std::set<int> all;
  bool each_has_its_own = true;
  for (const std::string& text : mpi.local_all_gather(fmt::format("{}", fmt::join(mine, " ")))) {
    each_has_its_own = add_cpus(text, all) && each_has_its_own;
  }
  const std::optional<double> quota = cpu_quota();
  const std::string groups = control_group_names();
  const auto sharing = std::ranges::count(mpi.local_all_gather(groups), groups);
  CpuShare share{mine, requested_threads, quota.value_or(0.0)};
  const std::vector<int> usable(all.begin(), all.end());
  if (!each_has_its_own) share.cpus = divide_cpus(usable, mpi.local_rank(), mpi.local_size());
  topology.bind_to(share.cpus);
  if (requested_threads <= 0) {
    share.thread_count = cores_within(quota, topology.core_count(share.cpus), static_cast<int>(sharing));
  }
  omp_set_num_threads(share.thread_count);
  return share;
}

}  // namespace carillon
