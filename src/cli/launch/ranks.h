// Ranks: starts a program with several ranks on this machine, under mpirun, and restarts it if a rank is lost.
//
// `carillon` starts its trainings in this way, and each training program starts its own ranks in this way (--ranks).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "src/cli/launch/child_process.h"
#include "src/cli/options/option_set.h"

namespace carillon {

/// The folder of the running program; it also holds the other programs.
std::filesystem::path programs_folder();

/// The program of this name in programs_folder(), in the form in which the user named the running program: a name in
/// PATH, or a relative or absolute path. An absolute path is returned unchanged.
std::string program_as_called(const std::string& program);

/// The number of physical cores that this process may use.
int usable_cores();

/// The environment variable that shows that mpirun, srun or another launcher of MPI programs started this process.
/// Empty if there is none. The shell of `srun --pty` does not count.
std::string launcher_variable();

/// The first file `name` in the folders of PATH that is executable; empty if there is none.
std::filesystem::path find_in_path(const std::string& name);

/// The line that a rank that stopped after a checkpoint appends to the file that CARILLON_STOP_FILE names.
inline constexpr std::string_view stopped_line = "stopped\n";

/// How a training or an evaluation starts.
struct Launch {
  int ranks = 1;  ///< 1: without mpirun
  int cores = 1;  ///< number of cores of this machine; the ranks divide them

  /// The command that runs `program` with `options` under mpirun, with each rank bound to its share of the cores.
  /// `program`: as in program_as_called.
  std::vector<std::string> command(const std::string& program, const std::vector<std::string>& options) const;
  /// The settings of run_child for such a command. The stop signal is USR1: mpirun forwards it and waits, so that the
  /// ranks can save. If a rank ends, mpirun gives the other ranks 30 s to save, unless the environment sets another
  /// time. The program does not receive CARILLON_RANKS.
  ChildSettings settings() const;
  /// Runs a command that `command` made. After a failure, mpirun prints about ten lines; this function then repeats the
  /// program's own error line. Ranks that stop after a checkpoint write stopped_line and exit with 0, so that mpirun
  /// prints nothing; the result then has the exit code 75. Errors: as run_child.
  ChildResult run(const std::vector<std::string>& words) const;
};

// --ranks: a training program that starts itself under mpirun, once per rank. No rank has the option.

/// `launcher`: the value of launcher_variable at the start of the program, because MPI_Init also sets such variables.
/// Errors: usage (--ranks, although a launcher started this process).
void check_ranks(const DeviceOptions& options, const std::string& launcher);

/// The words after the program's name for each rank: `words` without --ranks. A configuration file or the environment
/// may set --ranks, too: then `words` override it.
std::vector<std::string> words_of_ranks(const std::vector<std::string>& words);

/// Runs this program with `ranks` ranks on this machine and returns the exit_code_of the run. `program`: its name. If a
/// link of this name is in the folder of the program's file, the ranks start through this link. Signals act as
/// described in child_process.h: the first stop signal lets the run save and end with 75. Errors: no_input (no mpirun
/// in PATH), those of Launch::run.
int run_ranks(const std::string& program, int ranks, const std::vector<std::string>& words);

// Restarts: starts a training again if one of its ranks was killed, crashed or hung. jobs/restarts.sh does the same for
// the job scripts.

/// Whether a training ended because a rank ended, hung or did not respond. The function decides by the exit code and
/// the last error line (empty: the training printed none).
bool has_lost_rank(int exit_code, const std::string& error_line);

/// Returns the command of a training without the options that would start the training from the beginning.
std::vector<std::string> resuming(const std::vector<std::string>& command);

/// Runs a command that launch.command made. Repeats it while has_lost_rank returns true and no stop signal has arrived,
/// at most `restarts` times in a row without a newer checkpoint in the train directory. If no restart is left, the exit
/// code is 70. With 0 restarts, it is the exit code of the training. Errors: as run_child.
ChildResult run_with_restarts(const Launch& launch, const std::vector<std::string>& command,
                              const std::filesystem::path& train_dir, std::int64_t restarts);

/// Prints "carillon: <line>" to stdout at once.
void say(const std::string& line);

}  // namespace carillon
