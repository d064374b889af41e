// What a train directory holds, and whether a run may go on from it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "carillon/checkpoint/checkpoint.h"

namespace carillon {

/// Removes checkpoints, metrics and event files (not the directory, nor anything else in it).
void remove_run_files(const std::filesystem::path& train_dir);

/// One line for each option that decides the result and differs between the run that wrote `state` and this one.
std::vector<std::string> differences_that_matter(const CheckpointState& state, const nlohmann::json& option_values);

}  // namespace carillon
