// Launcher: reads the environment variables that mpirun, srun or another launcher of MPI programs sets for a process.
//
// All descendants of a rank inherit these variables, even programs that are not ranks. In such a program, MPI_Init
// would try to join the ranks and would then end the program.
#pragma once

#include <string>

namespace carillon {

/// If mpirun, srun or another launcher of MPI programs started this process, returns the environment variable that
/// shows this. Otherwise returns an empty text. The shell of `srun --pty` does not count.
std::string launcher_variable();

/// The processes that the launcher started.
struct LaunchedProcesses {
  int count = 0;              ///< number of processes; 0: there is no launcher, or it does not state a number
  std::string variable = {};  ///< the environment variable that states the number
};
LaunchedProcesses launched_processes();

/// Removes the variables of launchers from the environment of this process, so that this process and the programs that
/// it starts do not count as ranks. Call it before other threads run.
void leave_launcher();

/// Call it before MPI_Init. If there is no launcher, or the launcher started only this process, calls leave_launcher.
/// Errors: usage (Slurm started several tasks without a PMI, so the tasks cannot find each other).
void check_launcher();

/// Call it after MPI_Init. `size`: the number of processes that MPI states; `library`: the version of MPI. If the
/// launcher belongs to another MPI, every process is rank 0 of 1 and would train alone on the same files. Errors: usage
/// (the launcher started several processes, but MPI sees only one).
void check_that_ranks_are_connected(int size, const std::string& library);

}  // namespace carillon
