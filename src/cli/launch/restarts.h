// Restarts: starts a training again if one of its ranks was killed, crashed or hung. `carillon train` and `carillon
// launch` use it; the job scripts call `carillon launch`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "src/cli/launch/child_process.h"

namespace carillon {

/// True if a run with this exit code lost a rank. The code has one of three causes: a rank reported lost_rank, a signal
/// that is not a stop signal ended all ranks, or mpirun lost the connection to a host.
bool has_lost_rank(int exit_code);

/// Returns the value of the option `name` for a training with the command-line words `words`. If the words do not
/// contain the option, looks in the configuration file that the words or CARILLON_CONFIG name, and then in the
/// environment. Returns an empty text if no source has the option.
std::string option_value(const std::vector<std::string>& words, const std::string& name);

/// Returns the train directory of a training program with these options, or an empty path if the directory is unknown.
std::filesystem::path train_directory(const std::filesystem::path& program, const std::vector<std::string>& options);

/// Returns `options` without --fresh, --resume never and --resume best, which would not continue from the newest
/// checkpoint. If the environment or a configuration file sets one of these options, the result contains an option that
/// overrides it.
std::vector<std::string> resuming(const std::vector<std::string>& options);

/// A training that is started again after a lost rank.
struct RestartedTraining {
  std::vector<std::string> launcher = {};  ///< the words before the program: "mpirun", "-np", "2"; may be empty
  std::vector<std::string> program = {};   ///< the program and its options
  std::int64_t restarts = 0;               ///< largest number of restarts in a row without a newer checkpoint
  /// Runs a command. `start`: number of the start, from 1.
  std::function<ChildResult(const std::vector<std::string>& command, int start)> run = {};
  std::function<bool()> may_restart = [] { return true; };
  std::function<void(const std::string& line)> report = {};
};

/// Runs the training. Restarts it while has_lost_rank is true, no stop signal has arrived and may_restart is true.
/// Gives up after `restarts` restarts in a row without a newer checkpoint in the train directory. A restart omits
/// --fresh, unless a checkpoint from before the first start still exists. A restart omits --resume best, unless the
/// newest checkpoint is still the same as before the first start. If no restart is left, the exit code is
/// 70. If `restarts` is 0, the exit code of the training is returned. After a stop signal there is no restart, and the
/// exit code 71 becomes 75. Errors: see run_child.
ChildResult run_with_restarts(const RestartedTraining& training);

}  // namespace carillon
