// How a run learns that it must end: by a stop signal, or because the processes that started it have ended.
//
// Stop signals: TERM, INT, HUP, XCPU and USR1 ask a run to write a checkpoint and end.
//
// The handler sets a flag and, on rank 0, writes a StopNotice. If mpirun (Open MPI 4.1) receives TERM, INT or HUP, it
// sends CONT to the ranks. After odls_base_sigkill_timeout seconds (default 1) mpirun sends TERM, and after the same
// time it sends KILL. Meanwhile mpirun relays no output of the ranks. Therefore CONT from mpirun already counts as a
// stop signal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace carillon {

/// Installs the handlers. A TERM or INT signal ends the process immediately if it arrives more than a second after the
/// first signal, unless mpirun sent it. Files with their final names are complete; the next run removes temporary
/// files. All other signals after the first signal have no effect, because launchers repeat signals. If HUP is ignored
/// at the start (nohup), it stays ignored.
void catch_stop_signals();

/// Installs only the handler of CONT, which mpirun_ends_run needs. Does nothing if catch_stop_signals has been called.
void catch_end_of_run();

/// Returns the process ID of the mpirun that started this process, or of mpirun's daemon on this host. Returns 0 if
/// there is none, or if no signal handler is installed yet.
int mpirun_process();

/// True if mpirun has begun to end the run, because it received a stop signal or a rank has ended.
bool mpirun_ends_run();

/// True if a signal has asked this process to stop.
bool stop_signal_caught();

/// True if two times exceed a limit: the time since the launcher began to end the run, and the time that this rank has
/// waited (`waited`). The limit is half of odls_base_sigkill_timeout but at least 0.2 s; without mpirun it is 20 s. If
/// the result is true, ranks on another host have probably ended, and the caller should save without them.
bool should_save_alone(double waited);

/// While a StopNotice exists, the first stop signal writes one line to stderr. The line contains the signal, a notice
/// that the run saves after its current step, and the step of the newest complete checkpoint. If mpirun will kill the
/// run, the line also states when this happens, and how to give the run more time. At most one StopNotice exists at a
/// time.
class StopNotice {
 public:
  /// The functions are called in the signal handler, so they may only read atomic values. `saved_step`: step of the
  /// newest complete checkpoint, below 0: none. `run_fails`: returns true if another rank has failed. In this case, the
  /// notice writes no line, because the error line must be the last line.
  StopNotice(std::int64_t step, std::function<std::int64_t()> saved_step, std::function<bool()> run_fails);
  ~StopNotice();
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

  /// Tells the notice that the run begins this step.
  void enter_step(std::int64_t step);
};

// The launcher watch: a thread that ends this rank if the processes that started it have ended. Therefore the ranks end
// soon after these processes.
//
//   mpirun has ended (killed)            the run saves a checkpoint and ends with code 71
//   carillon or --ranks has ended        the run saves a checkpoint and ends, and so mpirun ends
//   a rank ends while MPI starts         the other ranks exit immediately: there is nothing to save
//
// The thread sends USR1 to its own process, so that all ranks stop together after a step, as at every stop signal. A
// program without a handler of USR1 ends immediately. If the run has not ended after 20 s, the thread ends it.

/// Starts the thread. Call it once, before MPI_Init, and after catch_stop_signals or catch_end_of_run, which find
/// mpirun.
void watch_launcher();

/// Records that this rank itself can now notice lost ranks, because its StallDetector observes its waits.
void finish_start();

/// Records that this rank ends. After this call, other ranks may end before this rank.
void finish_watch();

/// True if mpirun has ended. MPI_Finalize would then wait for mpirun for ever.
bool mpirun_has_ended();

}  // namespace carillon
