#include "src/core/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace carillon {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t number;
  if (file >> number) return number;
  return std::nullopt;  // no such file, or "max"
}

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

/// File names of one version of control groups.
struct ControlGroups {
  std::string line;  ///< text before the group's name in /proc/self/cgroup
  std::filesystem::path root;
  std::string limit, used;
};
const ControlGroups versions[] = {
    {"0::/", "/sys/fs/cgroup", "memory.max", "memory.current"},
    {":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
};

/// Minimum of `left(limit, used)` over the process's control groups that have a limit, including their parents.
template <typename Left>
std::uint64_t least_of_control_groups(Left left) {
  std::ifstream file("/proc/self/cgroup");
  std::uint64_t least = unlimited;
  for (std::string line; std::getline(file, line);) {
    for (const ControlGroups& version : versions) {
      const std::size_t found = line.find(version.line);
      if (found == std::string::npos) continue;
      for (std::filesystem::path group = line.substr(found + version.line.size());; group = group.parent_path()) {
        const auto limit = read_number(version.root / group / version.limit);
        const auto used = read_number(version.root / group / version.used);
        if (limit && used) least = std::min(least, left(*limit, *used));
        if (group.empty()) break;
      }
    }
  }
  return least;
}

}  // namespace

std::uint64_t available_memory_bytes() {
  const auto left = [](std::uint64_t limit, std::uint64_t used) { return limit - std::min(limit, used); };
  return std::min(machine_bytes("MemAvailable:").value_or(unlimited), least_of_control_groups(left));
}

std::uint64_t total_memory_bytes() {
  const auto limit = [](std::uint64_t all, std::uint64_t /*used*/) { return all; };
  const auto machine = machine_bytes("MemTotal:");
  if (!machine) return unlimited;
  return std::min(*machine, least_of_control_groups(limit)) + machine_bytes("SwapTotal:").value_or(0);
}

}  // namespace carillon
