// The main thread of a process of this host: its stack, and whether it is stopped or has ended.
#pragma once

namespace carillon {

/// Makes this process write the stack of its main thread to stderr on SIGUSR2. Call it on the main thread.
void catch_stack_signal();
/// Makes the main thread of `process` write its stack, and waits meanwhile. `process` must have called
/// catch_stack_signal. 0: does nothing.
void request_stack(int process);
/// True if the process is stopped (SIGSTOP, a debugger).
bool is_stopped(int process);
/// True if the process has ended, even if its parent has not yet fetched its exit code.
bool process_has_ended(int process);

}  // namespace carillon
