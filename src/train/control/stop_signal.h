// Stop signal: TERM, INT, HUP, XCPU and USR1 ask a run to write a checkpoint and end.
//
// The handler sets a flag and, on rank 0, writes a StopNotice. mpirun (Open MPI 4.1) answers its own TERM, INT or HUP
// like this: it sends CONT to the ranks, TERM after odls_base_sigkill_timeout seconds (default 1), and KILL after the
// same time again. It relays no output until then. So CONT from mpirun already counts as a stop signal.
#pragma once

#include <cstdint>
#include <functional>

namespace carillon {

/// Installs the handlers. A TERM or INT more than a second after the first signal has its default effect and ends the
/// process immediately, unless mpirun sent it. Files with their final names are complete; the next run removes
/// temporary files. A later signal of another kind has no effect, because launchers repeat it. If HUP is ignored at the
/// start (nohup), it stays ignored.
void catch_stop_signals();

/// Whether this process has been asked to stop.
bool stop_signal_caught();

/// True if the launcher has been ending the run, and this rank has been waiting (`waited`), for longer than a limit:
/// half of odls_base_sigkill_timeout, but at least 0.2 s, or 20 s without mpirun. Then other ranks have probably ended,
/// on another host, and the caller should save alone.
bool should_save_alone(double waited);

/// While it exists, the first stop signal writes one line to stderr: what was caught, that the run saves after its
/// step, the step of the newest complete checkpoint and, if mpirun will kill the run, when, and how to give it more
/// time. At most one exists at a time.
class StopNotice {
 public:
  /// The functions are called in the signal handler, so they may only read atomic values. `saved_step`: step of the
  /// newest complete checkpoint, below 0: none. `run_fails`: another rank has failed, and its error line must be the
  /// last; then no line is written.
  StopNotice(std::int64_t step, std::function<std::int64_t()> saved_step, std::function<bool()> run_fails);
  ~StopNotice();
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

  /// The run begins this step.
  void enter_step(std::int64_t step);
};

}  // namespace carillon
