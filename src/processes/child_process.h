// Child processes: starts other programs, passes stop signals on to them, and waits for them.
//
// The stop signals are INT, TERM, HUP, XCPU and USR1, except those that are ignored at the start (nohup). A program
// that calls hold_stop_signals first receives them only inside run_child and stop_requested, so that it can end in an
// orderly way between its steps.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace carillon {

/// Blocks the stop signals in the calling thread and in the threads that it starts later.
void hold_stop_signals();

/// Whether a stop signal arrived since the last call of run_child or stop_requested, which takes the signal.
bool stop_requested();

struct ChildSettings {
  /// The signal that the child receives for the first stop signal, again every second until it ends. INT and TERM
  /// signals that arrive a second or more later reach it as TERM.
  int stop_signal;
  /// The signal that the child receives if this process dies, for example by KILL.
  int death_signal;
  std::filesystem::path output = {};          ///< file for stdout and stderr; empty: those of this process
  std::vector<std::string> environment = {};  ///< "NAME=value", in addition to this process's
  bool is_mpirun = false;                     ///< the child is an mpirun with all ranks on this machine: see RankWatch
};

struct ChildResult {
  int exit_code = 0;            ///< 75 if the stop signal ended the child; 128 + signal if another signal did
  bool stopped = false;         ///< a stop signal arrived while the child ran
  std::string error_line = {};  ///< the last one of the ranks, if Launch::run ran them; empty: none
};

/// Runs `command` in its own session, with an empty standard input, and waits for its end. Terminal signals such as
/// Ctrl-C therefore reach only this process. If a signal ended an mpirun, also waits for its ranks. Errors: failed (no
/// process could be made), no_input (no such program).
ChildResult run_child(const std::vector<std::string>& command, const ChildSettings& settings);

/// The signal, other than a stop signal, that ended the process with this exit code; 0: none.
int crash_signal(int exit_code);

/// The exit code for a program that ends as its child `name` has ended: that of the child; 70 if a crash_signal ended
/// it. If the child printed no error line, then prints one. SIGPIPE counts as no crash.
int exit_code_of(const ChildResult& result, const std::string& name);

/// `command` as a line for a shell, with quotes where they are needed.
std::string shell_line(const std::vector<std::string>& command);

}  // namespace carillon
