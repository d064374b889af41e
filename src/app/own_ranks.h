// --ranks: a training program that starts itself under mpirun, once per rank. No rank has the option.
#pragma once

#include <string>
#include <vector>

#include "carillon/options/device_options.h"
#include "src/options/option_set.h"

namespace carillon {

/// `launcher`: the launcher_variable (mpi_launch.h) at the start of the program: MPI_Init sets such variables, too.
/// Errors: usage (--ranks, although a launcher started this process).
void check_ranks(const DeviceOptions& options, const std::string& launcher);

/// The words after the program's name for each rank: `words` without --ranks. A configuration file or the environment
/// may set --ranks, too: then `words` override it.
std::vector<std::string> words_of_ranks(const std::vector<std::string>& words);

/// Runs this program with `ranks` ranks on this machine and returns the exit_code_of the run. `program`: its name; the
/// ranks start by a link of this name beside the program's file, if there is one. Signals act as described in
/// child_process.h: the first stop signal lets the run save and end with 75. Errors: no_input (no mpirun in PATH),
/// those of Launch::run.
int run_ranks(const std::string& program, int ranks, const std::vector<std::string>& words);

}  // namespace carillon
