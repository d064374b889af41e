// Signal thread: which thread of a process takes the signals that are sent to it.
#pragma once

namespace carillon {

/// Has a thread of its own take TERM, INT, USR1 and USR2 from here on, whatever their handlers, instead of the calling
/// one and all that it starts. Where there is no AVX-512, oneDNN computes some products (inner sizes above 8192:
/// jit_avx_gemm_f32.cpp) with the stack pointer at the start of a block of the heap: a handler's frame would overwrite
/// what lies before it, another thread's numbers perhaps. To be called after MPI's start, whose helper processes would
/// inherit the mask, and before OpenMP's first threads.
void keep_signals_from_computation();

}  // namespace carillon
