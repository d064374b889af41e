// Free space: checks that the train directory has space for the checkpoints of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace carillon {

struct SpaceNeeded {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t count = 1;  ///< checkpoints in addition to those in the directory
};

/// The least size of a checkpoint with `floats` float32 numbers.
inline std::uint64_t checkpoint_bytes(std::uint64_t floats) { return floats * sizeof(float); }

/// Returns a warning if there is no space for `count` checkpoints; empty: there is space, or the file system does not
/// report it. Quotas are ignored. Errors: io (no space for one checkpoint).
std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed);

}  // namespace carillon
