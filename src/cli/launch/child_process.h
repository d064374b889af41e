// Child processes: starts other programs, passes stop signals on to them, and waits for them.
//
// The stop signals are INT, TERM, HUP, XCPU and USR1, without the signals that the process ignores at its start
// (nohup). If a program calls hold_stop_signals before anything else, it receives stop signals only inside run_child
// and stop_requested. The program can then end in an orderly way between its steps.
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

/// True if a stop signal has arrived since the last call of run_child or stop_requested. Each stop signal is reported
/// only once, by one of these two functions.
bool stop_requested();

struct ChildSettings {
  /// The signal that the child receives after the first stop signal. The child receives it again every second until the
  /// child ends. If an INT or TERM signal arrives a second or more later, the child receives TERM.
  int stop_signal;
  /// The signal that the child receives if this process dies, for example by KILL.
  int death_signal;
  std::filesystem::path output = {};          ///< file for stdout and stderr; empty: inherited from this process
  std::vector<std::string> environment = {};  ///< "NAME=value"; added to the environment variables of this process
  /// True if the child is an mpirun with all its ranks on this machine (RankWatch)
  bool is_mpirun = false;
};

struct ChildResult {
  int exit_code = 0;  ///< 75 if ChildSettings::stop_signal ended the child; 128 + the signal if another signal ended it
  bool stopped = false;         ///< a stop signal arrived while the child ran
  std::string error_line = {};  ///< last error line of the ranks; only run_launcher sets it; empty: no rank reported an
                                ///< error
};

/// Runs `command` in a new session, with an empty standard input, and waits for its end. Signals of the terminal such
/// as Ctrl-C therefore reach only this process. If a signal ended an mpirun, also waits for its ranks. Errors: failed
/// (the system cannot create a process), no_input (the program does not exist).
ChildResult run_child(const std::vector<std::string>& command, const ChildSettings& settings);

/// Returns the signal that ended a process with this exit code. Returns 0 if no signal or a stop signal ended the
/// process.
int crash_signal(int exit_code);

/// Returns the exit code with which a program ends after its child `name` has ended: the exit code of the child, or 71
/// if a crash_signal ended the child. If a crash_signal ended the child and the child printed no error line, this
/// function prints one. SIGPIPE does not count as a crash.
int exit_code_of(const ChildResult& result, const std::string& name);

/// Returns `command` as a line for a shell, with quotes around the words that need them.
std::string shell_line(const std::vector<std::string>& command);

// RankWatch: makes mpirun end soon after all its ranks have ended.
//
// If a rank fails, the mpirun of Open MPI 4.1 pauses twice, so that the other ranks can save. Each pause takes
// odls_base_sigkill_timeout seconds, even if no rank is left. Afterwards mpirun can hang when it exits.

class RankWatch {
 public:
  /// `mpirun`: a child process that starts all ranks of the run on this machine.
  explicit RankWatch(pid_t mpirun) : mpirun_(mpirun) {}

  /// Call this function a few times per second. After all ranks have ended, this function shortens mpirun's pauses, and
  /// later kills mpirun if mpirun hangs. A call that shortens a pause or kills mpirun takes up to half a second.
  void poll();

  /// Ends the first pause of an mpirun that received TERM, so that mpirun sends TERM to its ranks.
  void shorten_pause() const;

 private:
  using Clock = std::chrono::steady_clock;

  pid_t mpirun_;
  bool has_seen_ranks_ = false;
  std::optional<Clock::time_point> idle_since_;
};

/// Waits up to a minute until no process of the session runs. If mpirun was killed, its ranks write a checkpoint during
/// this wait.
void wait_for_session(pid_t session);

}  // namespace carillon
