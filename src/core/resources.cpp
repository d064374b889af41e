#include "src/core/resources.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Returns the number at the start of the file. Returns nullopt if the file does not exist or contains "max".
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = -1;  // -1 means unlimited (cpu.cfs_quota_us)
  if (!(file >> number) || number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

/// Calls `visit(folder)` for each control group of the process that may limit `controller`, and for its parents. The
/// file names differ between versions 1 and 2 of control groups, so `visit` tries both names.
template <typename Visit>
void for_each_group(const ControlGroupFiles& files, const std::string& controller, const Visit& visit) {
  std::ifstream lines(files.process);
  for (std::string line; std::getline(lines, line);) {  // version 1: "4:cpu,cpuacct:/job"; version 2: "0::/job"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find(fmt::format(",{},", controller)) == controllers.npos) continue;
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    const fs::path mount = is_version_2 ? files.root : files.root / controller;
    for (fs::path part = group;; part = part.parent_path()) {
      visit(mount / part);
      if (part.empty()) break;
    }
  }
}

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// Returns the value of a line of /proc/meminfo (proc(5)), converted from kB to bytes, or nullopt if the line is
/// missing.
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

/// Returns the limit of the address space (ulimit -v).
std::uint64_t address_bytes() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : unlimited;
}

/// Returns the address space that the process does not use yet, in bytes. Libraries and thread stacks reserve address
/// space even if they do not use the memory.
std::uint64_t free_address_bytes() {
  if (address_bytes() == unlimited) return unlimited;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return less(address_bytes(), pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const ControlGroupFiles& files) {
  std::vector<MemoryLimit> limits;
  for_each_group(files, "memory", [&](const fs::path& group) {
    auto bytes = number_in(group / "memory.max"), used = number_in(group / "memory.current");
    if (bytes && used) limits.push_back({*bytes, *used, number_in(group / "memory.swap.max")});
    bytes = number_in(group / "memory.limit_in_bytes"), used = number_in(group / "memory.usage_in_bytes");
    if (!bytes || !used) return;
    const auto with_swap = number_in(group / "memory.memsw.limit_in_bytes");
    limits.push_back(
        {*bytes, *used, with_swap ? std::optional(*with_swap - std::min(*with_swap, *bytes)) : std::nullopt});
  });
  return limits;
}

std::optional<double> cpu_quota(const ControlGroupFiles& files) {
  std::optional<double> least;
  const auto add = [&](std::optional<std::uint64_t> quota, std::optional<std::uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    least = std::min(least.value_or(cores), cores);
  };
  for_each_group(files, "cpu", [&](const fs::path& group) {
    std::ifstream file(group / "cpu.max");  // "max 100000" or "150000 100000"
    std::uint64_t quota = 0, period = 0;
    if (file >> quota >> period) add(quota, period);
    add(number_in(group / "cpu.cfs_quota_us"), number_in(group / "cpu.cfs_period_us"));
  });
  return least;
}

int cores_within(std::optional<double> quota, int cores, int processes) {
  constexpr double tolerance = 0.01;
  const double part = quota ? std::ceil(*quota / processes - tolerance) : cores;
  return std::max(1, static_cast<int>(std::min<double>(cores, part)));
}

std::string control_group_names(const ControlGroupFiles& files) {
  std::ifstream file(files.process);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
