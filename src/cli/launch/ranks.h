// Ranks: starts a program with several ranks on this machine, under mpirun.
//
// `carillon` starts its trainings in this way, and each training program starts its own ranks in this way (--ranks).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "src/cli/launch/child_process.h"
#include "src/cli/options/option_set.h"

namespace carillon {

/// Returns the folder of the running program. The other programs are in the same folder.
std::filesystem::path programs_folder();

/// Returns the way in which the user can call the program of this name in programs_folder(). The result has the form in
/// which the user called the running program: a name in PATH, or a relative or absolute path. If `program` is an
/// absolute path, returns it unchanged.
std::string program_as_called(const std::string& program);

/// Returns the number of physical cores that this process may use: the cores in its affinity mask, limited by its CPU
/// quota.
int usable_cores();

/// Returns the first executable file `name` in the folders of PATH, or an empty path if there is none.
std::filesystem::path find_in_path(const std::string& name);

/// Checks that mpirun is in PATH. `ranks`: the value of --ranks, for the message. Errors: no_input.
void require_mpirun(std::int64_t ranks);

/// If PATH contains an mpirun, checks that it belongs to the MPI library of this program. Errors: usage.
void check_mpirun();

/// The environment variable that names a file. Ranks append their error lines to this file.
inline constexpr const char* error_file_variable = "CARILLON_ERROR_FILE";
/// The environment variable that names a file. Each rank that fails or is stopped appends its exit code to the file, as
/// a line. A stopped rank then exits with 0, so that mpirun prints nothing.
inline constexpr const char* code_file_variable = "CARILLON_CODE_FILE";

/// Runs a launcher of ranks, such as mpirun, until its end. Sets error_line of the result. If a rank on this machine
/// failed, the exit code is the code of the first such rank. If no rank failed and the ranks were stopped after a
/// checkpoint, the code is 75. Otherwise it is the exit code of the launcher. Errors: see run_child.
ChildResult run_launcher(const std::vector<std::string>& words, ChildSettings settings);

/// If the ranks of a run printed an error line, prints this line again, after the lines of mpirun.
void repeat_error(const ChildResult& result);

/// How a training or an evaluation starts.
struct Launch {
  int ranks = 1;  ///< number of ranks; 1: the program starts without mpirun
  int cores = 1;  ///< number of cores of this machine; the ranks divide them

  /// Returns the command that runs `program` with `options` under mpirun. The command binds each rank to its share of
  /// the cores. `program`: see program_as_called.
  std::vector<std::string> command(const std::string& program, const std::vector<std::string>& options) const;
  /// Returns the settings of run_child for a command that `command` made. The stop signal is USR1: mpirun forwards it
  /// and waits, so that the ranks can save. If a rank ends, mpirun lets the other ranks save for 30 s, unless the
  /// environment sets another time. The program receives CARILLON_RANKS=0, so that no rank starts ranks.
  ChildSettings settings() const;
  /// Runs a command that `command` made, with run_launcher. If there are several ranks, also calls repeat_error.
  /// Errors: see run_child.
  ChildResult run(const std::vector<std::string>& words) const;
};

// --ranks: a training program starts itself under mpirun, once per rank. The ranks get --ranks 0.

/// Checks that --ranks is not used under a launcher. `launcher`: the value of launcher_variable (launcher.h) at the
/// start of the program, because MPI_Init also sets such variables. Errors: usage (--ranks is given, but a launcher
/// started this process).
void check_ranks(const DeviceOptions& options, const std::string& launcher);

/// Returns the words after the program's name for each rank: `words`, with --ranks 0 instead of the user's --ranks. The
/// words must contain --ranks 0, because a configuration file or the environment may also set --ranks.
std::vector<std::string> words_of_ranks(const std::vector<std::string>& words);

/// Runs this program with `ranks` ranks on this machine and returns the exit_code_of the run. `program`: the name of
/// this program. If the folder of the program's file contains a link of this name, the ranks start through this link.
/// Signals act as described in child_process.h: the first stop signal lets the run save and end with 75. Errors: see
/// require_mpirun, check_mpirun and Launch::run.
int run_ranks(const std::string& program, int ranks, const std::vector<std::string>& words);

/// Prints "carillon: <line>" to stdout at once.
void say(const std::string& line);

}  // namespace carillon
