// What a train directory holds.
#pragma once

#include <filesystem>

namespace carillon {

/// Removes checkpoints, metrics and event files (not the directory, nor anything else in it). Errors: io.
void remove_run_files(const std::filesystem::path& train_dir);

}  // namespace carillon
