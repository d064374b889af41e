// Restarts: starts a training again if one of its ranks was killed, crashed or hung. jobs/restarts.sh does the same for
// the job scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/processes/mpi_launch.h"

namespace carillon {

/// Whether a training ended because a rank has ended, hung or gave no response: by its exit code and its last error
/// line, which is empty if the training printed none.
bool has_lost_rank(int exit_code, const std::string& error_line);

/// A command of a training without the options that would start it over.
std::vector<std::string> resuming(const std::vector<std::string>& command);

/// Runs a command that launch.command made. Repeats it while has_lost_rank returns true and no stop signal has arrived,
/// at most `restarts` times in a row without a newer checkpoint in the train directory. If no restart is left, the exit
/// code is 70; with 0 restarts it is that of the training. Errors: those of run_child.
ChildResult run_with_restarts(const Launch& launch, const std::vector<std::string>& command,
                              const std::filesystem::path& train_dir, std::int64_t restarts);

}  // namespace carillon
