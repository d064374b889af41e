// Resources: the memory and processor time that this process can use, and freeing the memory of vectors.
//
// Control groups are the limits that a container or a batch system sets. Source: cgroups(7), and cpu.max, memory.max
// (version 2), cpu.cfs_quota_us, memory.limit_in_bytes (version 1) in Linux's documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// Returns the memory that Linux reports as available. The limits of the process (its control groups and ulimit -v)
/// reduce the result.
std::uint64_t available_memory_bytes();

/// Returns all memory and swap space, used or not. The limits of the process reduce the result.
std::uint64_t total_memory_bytes();

/// Empties the vector and frees its memory. `values = {}` and `values.clear()` would keep the memory.
template <typename T>
void free_memory(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

/// Frees the memory of the vector if it is large. Without this call, a thread that has decoded one large picture would
/// keep the memory.
template <typename T>
void free_if_large(std::vector<T>& values) {
  constexpr std::size_t kept_bytes = std::size_t{64} << 20;
  if (values.size() * sizeof(T) > kept_bytes) free_memory(values);
}

/// The paths where the system describes control groups. Tests use other paths.
struct ControlGroupFiles {
  std::filesystem::path process = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

struct MemoryLimit {
  std::uint64_t bytes = 0, used_bytes = 0;
  std::optional<std::uint64_t> swap_bytes = {};  ///< limit of the swap space; nullopt: unlimited
};

/// Returns the limits of this process's control groups, including their parents.
std::vector<MemoryLimit> memory_limits(const ControlGroupFiles& files = {});

/// Returns the processor time that the control groups permit, as a number of processors, for example 1.5. Returns
/// nullopt if there is no limit.
std::optional<double> cpu_quota(const ControlGroupFiles& files = {});

/// Returns the number of cores that a process can keep busy if `processes` processes share the quota. The result is at
/// least 1. It is at most `cores`, and at most the process's part of the quota, rounded up.
int cores_within(std::optional<double> quota, int cores, int processes = 1);

/// Returns the names of this process's control groups. Two processes of a host have equal texts if the same limits
/// apply to both.
std::string control_group_names(const ControlGroupFiles& files = {});

}  // namespace carillon
