// Free space: whether a train directory has room for the checkpoints to come.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace carillon {

struct SpaceNeeded {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t count = 1;  ///< of checkpoints that will be there beside those that are
};

/// Of a checkpoint with so many float32 numbers, at least.
inline std::uint64_t checkpoint_bytes(std::uint64_t floats) { return floats * sizeof(float); }

/// A line to warn with where there is no room for all of `count`; empty where there is, and where the file system does
/// not tell. Quotas are not seen. Errors: io (no room for one).
std::string check_free_space(const std::filesystem::path& directory, const SpaceNeeded& needed);

}  // namespace carillon
