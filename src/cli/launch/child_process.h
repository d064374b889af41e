// Child processes: starts other programs, passes stop signals on to them, and waits for them.
//
// The stop signals are INT, TERM, HUP, XCPU and USR1, except those that are ignored at the start (nohup). A program
// that calls hold_stop_signals first receives stop signals only inside run_child and stop_requested, so that it can end
// in an orderly way between its steps.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// Blocks the stop signals in the calling thread and in all threads that this thread starts later.
void hold_stop_signals();

/// Whether a stop signal arrived since the last call of run_child or stop_requested. Each of them consumes the signal.
bool stop_requested();

struct ChildSettings {
  /// The signal that the child receives after the first stop signal. It receives this signal again every second until
  /// it ends. If an INT or TERM signal arrives a second or more later, the child receives TERM.
  int stop_signal;
  /// The signal that the child receives if this process dies, for example by KILL.
  int death_signal;
  std::filesystem::path output = {};          ///< file for stdout and stderr; empty: inherited from this process
  std::vector<std::string> environment = {};  ///< "NAME=value", in addition to the environment of this process
  bool is_mpirun = false;                     ///< the child is an mpirun with all ranks on this machine: see RankWatch
};

struct ChildResult {
  int exit_code = 0;            ///< 75 if the stop signal ended the child; 128 + signal if another signal did
  bool stopped = false;         ///< a stop signal arrived while the child ran
  std::string error_line = {};  ///< last error line of the ranks, if run_launcher ran them; empty: none
};

/// Runs `command` in its own session, with an empty standard input, and waits for its end. Terminal signals such as
/// Ctrl-C therefore reach only this process. If a signal ended an mpirun, also waits for its ranks. Errors: failed (no
/// process could be made), no_input (no such program).
ChildResult run_child(const std::vector<std::string>& command, const ChildSettings& settings);

/// The signal, other than a stop signal, that ended the process with this exit code; 0: none.
int crash_signal(int exit_code);

/// The exit code for a program that must end in the same way as its child `name`: the exit code of the child, or 71 if
/// a crash_signal ended the child. If a crash_signal ended the child and the child printed no error line, this function
/// prints one. SIGPIPE does not count as a crash.
int exit_code_of(const ChildResult& result, const std::string& name);

/// `command` as a line for a shell, with quotes where they are needed.
std::string shell_line(const std::vector<std::string>& command);

// RankWatch: ends mpirun soon after all its ranks have ended.
//
// If a rank fails, Open MPI 4.1's mpirun pauses twice for odls_base_sigkill_timeout seconds, so that the other ranks
// can save. mpirun pauses even if no rank is left, and it can hang when it exits.

class RankWatch {
 public:
  /// `mpirun`: a child of this process that starts all its ranks on this machine.
  explicit RankWatch(pid_t mpirun) : mpirun_(mpirun) {}

  /// Shortens mpirun's pauses if ranks have run and all have ended, and kills mpirun if it still hangs later. Such a
  /// call takes up to half a second. The caller must call this a few times per second.
  void poll();

  /// Ends the first pause of an mpirun that received TERM, so that mpirun sends TERM to its ranks.
  void shorten_pause() const;

 private:
  using Clock = std::chrono::steady_clock;

  pid_t mpirun_;
  bool has_seen_ranks_ = false;
  std::optional<Clock::time_point> idle_since_;
};

/// Waits up to a minute until no process of the session runs. If mpirun was killed, its ranks save during this wait.
void wait_for_session(pid_t session);

}  // namespace carillon
