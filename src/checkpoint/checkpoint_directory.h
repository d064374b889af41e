// The checkpoints of a train directory: retention.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Removes the checkpoints that `retention` does not keep, after that of `newest_step` has been written. Later steps
/// are neither counted nor removed: they belong to another run, or they are damaged and this run skipped them. Errors:
/// io.
void remove_old_checkpoints(const std::filesystem::path& train_dir, std::int64_t newest_step,
                            const CheckpointRetention& retention);

}  // namespace carillon
