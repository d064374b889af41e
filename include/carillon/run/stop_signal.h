// Stop signal: TERM, INT and USR1 ask a run to write a checkpoint and end. The handler only sets a flag.
#pragma once

namespace carillon {

/// Installs the handlers. A TERM or INT more than a second after the first signal ends the process at once, by its
/// default effect: what has its name is whole, and the next run removes what has not. USR1 never does: launchers repeat
/// it.
void catch_stop_signals();

/// Has a thread of its own take them from here on, instead of the calling one and all that it starts. Where there is no
/// AVX-512, oneDNN computes some products (inner sizes above 8192: jit_avx_gemm_f32.cpp) with the stack pointer at the
/// start of a block of the heap: a handler's frame would overwrite what lies before it, another thread's numbers
/// perhaps. To be called after MPI's start, whose helper processes would inherit the mask, and before OpenMP's first
/// threads.
void keep_stop_signals_from_computation();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

}  // namespace carillon
