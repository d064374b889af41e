#include "src/data/available_memory.h"

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
  return std::nullopt;  // absent, or "max"
}

/// A line of /proc/meminfo (proc(5)), in kB there; none where it is not known.
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

/// The least that `left(limit, used)` gives over the control groups (version 2, each and its parents) that have a
/// limit.
template <typename Left>
std::uint64_t least_of_control_groups(Left left) {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream file("/proc/self/cgroup");
  std::uint64_t least = unlimited;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      const auto limit = read_number(root / group / "memory.max"), used = read_number(root / group / "memory.current");
      if (limit && used) least = std::min(least, left(*limit, *used));
      if (group.empty()) break;
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
