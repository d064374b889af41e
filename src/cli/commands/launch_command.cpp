// carillon launch: runs a program under mpirun or srun for the job scripts. It forwards stop signals, repeats the
// program's error line at the end, and starts a training again after a lost rank.
//
//   carillon launch --name single_node --program mnist_train -- mpirun -np 2 mnist_train --train-dir runs/mnist
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "carillon/core/error.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/child_process.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/launch/restarts.h"
#include "src/cli/options/option_set.h"
#include "src/comm/mpi/launcher.h"

namespace carillon {
namespace {

using Words = std::vector<std::string>;

struct LaunchOptions {
  std::string name = "carillon", program, restart_if, after_stop;
  bool on_other_hosts = false;
  Words command;
};

OptionSet option_set(LaunchOptions& options) {
  OptionSet set({.program = "carillon launch",
                 .purpose = "Runs a program under mpirun or srun, and restarts a training after a lost rank",
                 .synopses = {"carillon launch --program PROGRAM [OPTION...] -- COMMAND..."},
                 .description = "The job scripts call it. The environment variable RESTARTS sets the number of\n"
                                "restarts in a row without a new checkpoint (default: 3; 0: no restart)."});
  set.use_command_line_only();
  set.add("name", options.name, "name in messages");
  set.add("program", options.program, "the word of COMMAND that names the program");
  set.add("on-other-hosts", options.on_other_hosts, "ranks run on other hosts, too");
  set.add("restart-if", options.restart_if, "shell command that fails if a restart is impossible");
  set.add("after-stop", options.after_stop, "shell command after a stop with a checkpoint");
  set.take_rest(options.command);
  return set;
}

/// Returns the value of the environment variable RESTARTS, or 3 if it is not set. Errors: usage.
std::int64_t restarts_in_environment() {
  const char* const text = std::getenv("RESTARTS");
  if (text == nullptr || *text == '\0') return 3;
  try {
    return parse_integer(text, 0, std::numeric_limits<std::int64_t>::max());
  } catch (const ValueExpected&) {
    fail(ExitCode::usage, "RESTARTS is '{}'; expected a whole number (0: no restarts)", text);
  }
}

void report(const std::string& name, const std::string& line) {
  print_text(STDERR_FILENO, fmt::format("{}: {}\n", name, line));
}

bool succeeds(const std::string& shell_command) {
  const ChildSettings settings{.stop_signal = SIGTERM, .death_signal = SIGTERM};
  return shell_command.empty() || run_child({"bash", "-c", shell_command}, settings).exit_code == 0;
}

int run(const LaunchOptions& options, std::int64_t restarts) {
  const auto program = std::ranges::find(options.command, options.program);
  if (program == options.command.end()) {
    fail(ExitCode::usage, "launch: --program {}: COMMAND does not contain this word", options.program);
  }
  const bool is_slurm = options.command.front() == "srun", trains = options.program.ends_with("_train");
  if (!is_slurm) {
    check_mpirun();
    leave_launcher();  // the ranks have their own launcher, so this process must not count as a rank
  }
  const auto started = std::chrono::steady_clock::now();
  const RestartedTraining training{
      .launcher = {options.command.begin(), program},
      .program = {program, options.command.end()},
      .restarts = trains ? restarts : 0,
      .run =
          [&](const Words& command, int start) {
            ChildSettings settings{
                .stop_signal = SIGUSR1, .death_signal = SIGUSR1, .is_mpirun = !options.on_other_hosts};
            if (options.on_other_hosts && !is_slurm) {  // multi_node_mpirun.sh chooses the hosts again at each start
              settings.environment.push_back(fmt::format("CARILLON_START={}", start));
            }
            ChildResult result = run_launcher(command, settings);
            repeat_error(result);
            return result;
          },
      .may_restart = [&] { return succeeds(options.restart_if); },
      .report = [&](const std::string& line) { report(options.name, line); }};
  ChildResult result = run_with_restarts(training);
  constexpr int killed_by_stop = 128 + SIGUSR1, stopped = static_cast<int>(ExitCode::stopped);
  // Slurm's signal ended the program before the program installed its signal handlers. The training had not begun, so
  // this counts as a normal stop.
  const bool is_early = std::chrono::steady_clock::now() - started < std::chrono::minutes(1);
  if (trains && result.exit_code == killed_by_stop && is_early) result.exit_code = stopped;
  if (result.exit_code != stopped) return result.exit_code;
  if (is_slurm) {
    succeeds(options.after_stop);
  } else {
    print_text(STDERR_FILENO, "stopped after a checkpoint: repeat the command to resume\n");
  }
  return stopped;
}

}  // namespace

int launch_command(const Words& words) {
  hold_stop_signals();
  LaunchOptions options;
  OptionSet set = option_set(options);
  if (!set.parse(joined({"carillon"}, words))) {
    print_text(STDOUT_FILENO, set.answer());
    return 0;
  }
  try {
    return run(options, restarts_in_environment());
  } catch (const Error& error) {
    report(options.name, error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace carillon
