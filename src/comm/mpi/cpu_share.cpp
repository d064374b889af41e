#include "src/comm/mpi/cpu_share.h"

#include <fmt/ranges.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "src/comm/mpi/cpu_topology.h"

namespace carillon {
namespace {

/// True if mpirun 4.x bound this rank by default. It binds up to two ranks to one core each unless the user chooses a
/// binding.
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
  CpuShare share{mine, requested_threads};
  const std::vector<int> usable(all.begin(), all.end());
  if (!each_has_its_own) share.cpus = divide_cpus(usable, mpi.local_rank(), mpi.local_size());
  topology.bind_to(share.cpus);
  if (requested_threads <= 0) share.thread_count = std::max(1, topology.core_count(share.cpus));
  omp_set_num_threads(share.thread_count);
  return share;
}

}  // namespace carillon
