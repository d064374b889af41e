// Main thread: of a process of this host, where it is and whether it runs.
#pragma once

namespace carillon {

/// From here on a USR2 has this process write its main thread's stack on stderr; called on that thread.
void catch_stack_signal();
/// Has the main thread of a process that has done so write its stack, and waits while it does; of none, if it is 0.
void ask_for_stack(int process);
/// Whether somebody has stopped a process (SIGSTOP, a debugger).
bool is_stopped(int process);

}  // namespace carillon
