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

/// MemAvailable of /proc/meminfo (proc(5)), in kB there.
std::uint64_t machine_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kilobytes;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return unlimited;
}

/// What the control groups (version 2, each and its parents) leave: limit less use that cannot be reclaimed.
std::uint64_t control_group_available_bytes() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream file("/proc/self/cgroup");
  std::uint64_t available = unlimited;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      const auto limit = read_number(root / group / "memory.max"), used = read_number(root / group / "memory.current");
      if (limit && used) available = std::min(available, *limit - std::min(*limit, *used));
      if (group.empty()) break;
    }
  }
  return available;
}

}  // namespace

std::uint64_t available_memory_bytes() { return std::min(machine_available_bytes(), control_group_available_bytes()); }

}  // namespace carillon
