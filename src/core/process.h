// Process: setup at the start of a program, and queries about the host, the terminal, and other processes and their
// stacks.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace carillon {

/// Opens /dev/null for reading for each of stdin, stdout and stderr that is closed. Otherwise the next opened file
/// would get the number of the closed descriptor, and messages would be written into this file. The descriptors are
/// read-only. Therefore writing to stdout or stderr still fails, as it would without this function.
void open_standard_descriptors();

/// Starts a thread that handles the signals TERM, INT, HUP, XCPU, CONT, USR1 and USR2. Blocks these signals in the
/// calling thread and in all threads that the calling thread starts later. Reason: on processors without AVX-512,
/// oneDNN computes products with an inner size above 8192 while the stack pointer is at the start of a heap block
/// (jit_avx_gemm_f32.cpp). The stack frame of a signal handler would overwrite the memory before that block. Call this
/// after MPI_Init, because MPI's helper processes would inherit the signal mask, and before the first OpenMP region.
void keep_signals_from_computation();

/// Limits the time that OpenMP threads spin at the end of a parallel region before they sleep. Restarts the program
/// once, in the same process, with the same arguments and with GOMP_SPINCOUNT set: GCC's OpenMP library reads this
/// variable before main. No effect if the environment sets GOMP_SPINCOUNT or OMP_WAIT_POLICY. Reason: the library's own
/// limit is several milliseconds. If other programs use the cores, a thread may spin while the thread that it waits for
/// has no core. With the library's limit, trainings were up to 190 times slower. Call this first in main.
void bound_spinning();

/// Makes the calling thread, and all threads that it starts later, treat denormal floats as zero, both as operands and
/// as results. No effect on unknown processors. Reason: vanishing gradients and moving averages become denormals, which
/// are slow on some processors. On an Emerald Rapids processor, denormals reduced the speed of a training with raw
/// pixels to a third. Training does not need denormals: the smallest normal float is 1.2e-38.
void flush_denormals();

/// Writes the text that stdout has buffered. A closed pipe does not count as an error, because its reader, such as
/// `head`, has ended.
/// Errors: io.
void flush_stdout();

/// Returns the bytes of /proc/PROCESS/FILE, for example of "environ". Returns an empty text if the file cannot be read,
/// or if the process ends during the read.
std::string process_file(int process, std::string_view file);

/// True if the process is stopped (SIGSTOP, a debugger).
bool is_stopped(int process);
/// True if all threads of the process have ended, even if the parent process has not yet fetched the exit code.
bool process_has_ended(int process);

/// Makes this process write the stack of its main thread to stderr on SIGUSR2. Call it on the main thread.
void catch_stack_signal();
/// Makes the main thread of `process` write its stack, and waits a fraction of a second for the output. `process` must
/// have called catch_stack_signal. If `process` is 0, does nothing.
void request_stack(int process);

/// Returns the number of child processes of `process` that have not ended.
int running_children(int process);

/// Returns a text that identifies a running process, even if another process later gets the same process ID. The text
/// contains the process ID, the start time, the PID namespace and the boot of the host. The text is empty if the
/// process does not exist.
std::string process_identity(int process);
/// True if the process with this identity has ended. False if this is unknown: the text is empty, or the process
/// belongs to another host or container.
bool identified_process_has_ended(const std::string& identity);

/// After `seconds`, ends this process with the exit code `code`, if it still runs. Call it on an error path before
/// calls that may never return.
void exit_after(double seconds, int code);

/// Ignores SIGXFSZ, so that a write beyond the file size limit (ulimit -f) fails with an error and does not end the
/// process. Every program calls it.
void ignore_file_size_signal();

/// Returns the name of this host (gethostname), or "localhost" if gethostname fails.
std::string host_name();

/// True if the terminal can only append text: TERM is "dumb", empty or not set. In this case, progress lines are not
/// redrawn.
inline bool is_dumb_terminal() {
  const char* const type = std::getenv("TERM");
  return type == nullptr || *type == '\0' || type == std::string_view("dumb");
}

/// A launcher sets this environment variable to its own process_identity. The processes that it starts, and their
/// children, inherit the variable.
inline constexpr const char* launcher_variable_name = "CARILLON_LAUNCHER";

}  // namespace carillon
