// Finds out whether the output of this process reaches a terminal through the pipes of an MPI launcher.
#pragma once

namespace carillon {

/// Whether output to `descriptor` (stdout or stderr) appears on a terminal. Open MPI gives each rank a pseudo-terminal
/// as stdout and a pipe as stderr. If the rank still has these streams, the stream of the launcher decides. A launcher
/// on another host has no terminal here.
bool reaches_terminal(int descriptor);

}  // namespace carillon
