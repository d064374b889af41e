// Checkpoint directory: which steps a train directory holds, and which of them are kept.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Removes the oldest checkpoints but those to keep, once that of `newest_step` is in place. Later steps are another
/// run's, or damaged ones that this run fell back from: they neither count nor go. Errors: io.
void remove_old_checkpoints(const std::filesystem::path& train_dir, std::int64_t newest_step,
                            const CheckpointRetention& retention);

}  // namespace carillon
