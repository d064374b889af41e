// Prints the stack of the main thread of any process on this host.
#pragma once

namespace carillon {

/// Makes this process write the stack of its main thread to stderr on SIGUSR2. Call it on the main thread.
void catch_stack_signal();
/// Makes the main thread of `process` write its stack, and waits until it has had time to do so. `process` must have
/// called catch_stack_signal. If `process` is 0, does nothing.
void request_stack(int process);

}  // namespace carillon
