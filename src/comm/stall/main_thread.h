// The stack of the main thread of a process of this host.
#pragma once

namespace carillon {

/// Makes this process write the stack of its main thread to stderr on SIGUSR2. Call it on the main thread.
void catch_stack_signal();
/// Makes the main thread of `process` write its stack, and waits meanwhile. `process` must have called
/// catch_stack_signal. 0: does nothing.
void request_stack(int process);

}  // namespace carillon
