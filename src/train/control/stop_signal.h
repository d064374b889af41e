// Stop signal: TERM, INT and USR1 ask a run to write a checkpoint and end. The handler only sets a flag.
#pragma once

namespace carillon {

/// Installs the handlers. A TERM or INT more than a second after the first signal has its default effect and ends the
/// process immediately. Files with their final names are complete; the next run removes temporary files. A later USR1
/// has no effect, because launchers repeat it.
void catch_stop_signals();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

}  // namespace carillon
