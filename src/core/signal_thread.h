// Signal thread: a thread that handles the signals of the process.
#pragma once

namespace carillon {

/// Starts a thread that takes TERM, INT, HUP, XCPU, CONT, USR1 and USR2, and blocks them in the calling thread and in
/// the threads that it starts later. Reason: on processors without AVX-512, oneDNN computes some products (inner size
/// above 8192: jit_avx_gemm_f32.cpp) with the stack pointer at the start of a heap block. The frame of a signal handler
/// would overwrite the memory before it. Call this after MPI_Init, because MPI's helper processes would inherit the
/// mask, and before the first OpenMP region.
void keep_signals_from_computation();

}  // namespace carillon
