// LauncherWatch: a thread that ends this rank if the processes that started it have ended. No rank outlives them for
// long.
//
//   mpirun has ended (killed)            the run saves a checkpoint and ends with code 71
//   carillon or --ranks has ended        the run saves a checkpoint and ends, and so mpirun ends
//   a rank ends while MPI starts         the others exit at once: there is nothing to save
//
// The thread sends USR1 to its own process, so that all ranks stop together after a step, as at every stop signal. A
// program without a handler of USR1 ends at once. If the run has not ended after 20 s, the thread ends it.
#pragma once

#include <string>

namespace carillon {

/// The environment variable with the process_identity of the program that started mpirun.
inline constexpr const char* launcher_variable_name = "CARILLON_LAUNCHER";

/// Starts the thread. Call it once, before MPI_Init.
void watch_launcher();

/// Records that this rank can notice lost ranks itself, because it observes its waits (StallDetector).
void finish_start();

/// Records that this rank ends. Other ranks may then end first.
void finish_watch();

/// Whether mpirun has ended. MPI_Finalize would then wait for it for ever.
bool mpirun_has_ended();

}  // namespace carillon
