#include "carillon/comm/cpu_share.h"

#include <fmt/ranges.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace carillon {
namespace {

std::vector<int> allowed_cpus(pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(process, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void bind_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // a sandbox may refuse: the run is slower then, not wrong
}

/// mpirun 4.x binds by its own default, to one core a rank up to two ranks, when nobody asked for a binding.
bool bound_by_launcher_default() {
  const char* bound = std::getenv("OMPI_MCA_orte_bound_at_launch");
  return bound != nullptr && std::string_view(bound) == "1" &&
         std::getenv("OMPI_MCA_hwloc_base_binding_policy") == nullptr;
}

/// Physical cores among `cpus`: those of equal sibling lists are one.
int physical_core_count(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

/// Adds the CPU numbers in `text` to `cpus`; false when one was there already.
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
  std::vector<int> mine = allowed_cpus(bound_by_launcher_default() ? getppid() : 0);
  if (mine.empty()) mine = allowed_cpus(0);

  std::set<int> all;
  bool each_has_its_own = true;
  for (const std::string& text : mpi.local_all_gather(fmt::format("{}", fmt::join(mine, " ")))) {
    each_has_its_own = add_cpus(text, all) && each_has_its_own;
  }
  CpuShare share{mine, requested_threads};
  const std::vector<int> usable(all.begin(), all.end());
  if (!each_has_its_own) share.cpus = divide_cpus(usable, mpi.local_rank(), mpi.local_size());
  bind_to(share.cpus);
  if (requested_threads <= 0) share.thread_count = std::max(1, physical_core_count(share.cpus));
  omp_set_num_threads(share.thread_count);
  return share;
}

}  // namespace carillon
