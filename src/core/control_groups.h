// Control groups: the limits of memory and processor time that a container or a batch system sets. Source: cgroups(7),
// and cpu.max, memory.max (version 2), cpu.cfs_quota_us, memory.limit_in_bytes (version 1) in Linux's documentation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// Where the system describes control groups. Tests use other places.
struct ControlGroupFiles {
  std::filesystem::path process = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

struct MemoryLimit {
  std::uint64_t bytes = 0, used_bytes = 0;
  std::optional<std::uint64_t> swap_bytes = {};  ///< nullopt: unlimited
};

/// The limits of this process's control groups, including their parents.
std::vector<MemoryLimit> memory_limits(const ControlGroupFiles& files = {});

/// How many processors' time the control groups permit, for example 1.5. nullopt: no limit.
std::optional<double> cpu_quota(const ControlGroupFiles& files = {});

/// The number of cores that a process can keep busy: at most `cores`, and at most its part of the quota, rounded up, if
/// `processes` share the quota. At least one.
int cores_within(std::optional<double> quota, int cores, int processes = 1);

/// Equal for two processes of a host if they share all their limits.
std::string control_group_names(const ControlGroupFiles& files = {});

}  // namespace carillon
