#include "src/core/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "src/core/control_groups.h"

namespace carillon {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// Value of a line of /proc/meminfo (proc(5)), which is in kB there; empty if the line is missing.
std::optional<std::uint64_t> machine_bytes(const std::string& line) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kilobytes;
  while (file >> name >> kilobytes) {
    if (name == line) return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

std::uint64_t less(std::uint64_t whole, std::uint64_t part) { return whole - std::min(whole, part); }

/// The limit of the address space (ulimit -v).
std::uint64_t address_bytes() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : unlimited;
}

/// The addresses that the process does not use yet. Libraries and stacks of threads use addresses without memory, too.
std::uint64_t free_address_bytes() {
  if (address_bytes() == unlimited) return unlimited;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return less(address_bytes(), pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::uint64_t available_memory_bytes() {
  std::uint64_t least = std::min(machine_bytes("MemAvailable:").value_or(unlimited), free_address_bytes());
  for (const MemoryLimit& limit : memory_limits()) least = std::min(least, less(limit.bytes, limit.used_bytes));
  return least;
}

std::uint64_t total_memory_bytes() {
  const auto memory = machine_bytes("MemTotal:");
  if (!memory) return address_bytes();
  const std::uint64_t swap = machine_bytes("SwapTotal:").value_or(0);
  std::uint64_t least = std::min(*memory + swap, address_bytes());
  for (const MemoryLimit& limit : memory_limits()) {
    least = std::min(least, std::min(limit.bytes, *memory) + std::min(limit.swap_bytes.value_or(swap), swap));
  }
  return least;
}

}  // namespace carillon
