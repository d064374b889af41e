// Where this process's output ends up, behind the pipes of an MPI launcher.
#pragma once

namespace carillon {

/// Whether what is written to `descriptor` (stdout or stderr) is seen on a terminal. Open MPI gives each rank a
/// pseudo-terminal as stdout and a pipe as stderr, whatever its own streams are: there it is the launcher's stream that
/// counts, as long as the rank's is the one that the launcher gave it. A launcher on another host has no terminal here.
bool reaches_terminal(int descriptor);

}  // namespace carillon
