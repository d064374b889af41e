// MPI launch: the command that starts a program with several ranks on this machine.
//
// `carillon` starts its trainings with it, and each training program starts its own ranks with it (--ranks).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/processes/child_process.h"

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

  /// `program` with `options` under mpirun, each rank bound to its share of the cores. `program`: as in
  /// program_as_called.
  std::vector<std::string> command(const std::string& program, const std::vector<std::string>& options) const;
  /// USR1 as stop signal: mpirun forwards it and waits, so that the ranks can save. If a rank ends, mpirun gives the
  /// others 30 s to save, unless the environment says otherwise. CARILLON_RANKS does not reach the program.
  ChildSettings settings() const;
  /// Runs a command that `command` made. After a failure, mpirun prints about ten lines; this function then repeats the
  /// program's own error line. Ranks that stop after a checkpoint write stopped_line and exit with 0, so that mpirun
  /// prints nothing; the result then has the exit code 75. Errors: those of run_child.
  ChildResult run(const std::vector<std::string>& words) const;
};

}  // namespace carillon
