// Stop signal: TERM, INT and USR1 ask a run to write a checkpoint and end. The handler only sets a flag.
#pragma once

namespace carillon {

/// Installs the handlers; of a second TERM or INT the process dies at once.
void catch_stop_signals();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

}  // namespace carillon
