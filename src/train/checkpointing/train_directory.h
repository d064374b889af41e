// The files of a run in its train directory.
#pragma once

#include <filesystem>

namespace carillon {

/// Removes checkpoints, metrics.jsonl and event files, and nothing else. Errors: io.
void remove_run_files(const std::filesystem::path& train_dir);

}  // namespace carillon
