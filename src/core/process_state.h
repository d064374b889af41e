// Whether another process of this host is stopped or has ended.
#pragma once

namespace carillon {

/// True if the process is stopped (SIGSTOP, a debugger).
bool is_stopped(int process);
/// True if all threads of the process have ended, even if its parent has not yet fetched its exit code.
bool process_has_ended(int process);

}  // namespace carillon
