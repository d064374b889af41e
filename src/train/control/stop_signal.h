// Stop signal: TERM, INT and USR1 ask a run to write a checkpoint and end. The handler only sets a flag.
#pragma once

namespace carillon {

/// Installs the handlers. A TERM or INT more than a second after the first signal ends the process at once, by its
/// default effect: what has its name is whole, and the next run removes what has not. USR1 never does: launchers repeat
/// it.
void catch_stop_signals();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

}  // namespace carillon
