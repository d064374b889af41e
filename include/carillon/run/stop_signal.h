// Stop signal: TERM, INT and USR1 ask a run to write a checkpoint and end. The handler only sets a flag.
#pragma once

namespace carillon {

/// Installs the handlers. The second TERM or INT gives the signal its default effect back, so that a third one kills.
void catch_stop_signals();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

}  // namespace carillon
