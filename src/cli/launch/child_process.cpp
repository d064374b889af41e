#include "src/cli/launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {
namespace {

constexpr int signal_base = 128;  ///< if a signal ended a process, a shell reports this number plus the signal as the
                                  ///< exit code
constexpr std::array all_stop_signals{SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// Returns the stop signals that this process handles. A signal that the process ignores, such as HUP under nohup,
/// stays ignored.
sigset_t stop_signals() {
  sigset_t set = set_of({});
  for (const int signal : all_stop_signals) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

/// The child's command line, environment and descriptors. All memory is allocated before fork, because only
/// async-signal-safe calls may follow.
struct Start {
  std::vector<char*> arguments, environment;
  const ChildSettings& settings;
  pid_t parent;
  int output;   ///< descriptor for stdout and stderr; -1: inherited
  int failure;  ///< descriptor that receives errno if the program cannot start
};

/// Replaces the child process by the program. Runs in the child and does not return.
[[noreturn]] void become(const Start& start) {
  setsid();
  prctl(PR_SET_PDEATHSIG, start.settings.death_signal);
  for (const int signal : {SIGUSR1, SIGCHLD, SIGPIPE}) std::signal(signal, SIG_DFL);
  const sigset_t none = set_of({});
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool ready = getppid() == start.parent && input >= 0 && dup2(input, STDIN_FILENO) >= 0;
  if (start.output >= 0) {
    ready = ready && dup2(start.output, STDOUT_FILENO) >= 0 && dup2(start.output, STDERR_FILENO) >= 0;
  }
  if (ready) execvpe(start.arguments.front(), start.arguments.data(), start.environment.data());
  const int error = errno;
  if (write(start.failure, &error, sizeof error) < 0) _exit(1);
  _exit(1);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns the environment of this process together with `more`. A later entry replaces an earlier entry of the same
/// name.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    if (std::ranges::none_of(more, [&](const std::string& other) { return other.starts_with(name); })) {
      entries.push_back(text);
    }
  }
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

/// Starts the child. Returns its process ID.
pid_t start_child(const std::vector<std::string>& command, const ChildSettings& settings) {
  Descriptor output;
  if (!settings.output.empty()) {
    output = Descriptor(open(settings.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (output.get() < 0) fail(ExitCode::io, "{}: cannot write: {}", settings.output.string(), errno_text(errno));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ExitCode::failed, "cannot create a pipe: {}", errno_text(errno));
  const Descriptor failure_read(ends[0]);
  Descriptor failure_write(ends[1]);
  std::vector<std::string> own = settings.environment;
  own.push_back(fmt::format("{}={}", launcher_variable_name, process_identity(getpid())));
  const std::vector<std::string> environment = environment_with(own);
  const Start start{
      pointers(command),  pointers(environment), settings, getpid(), settings.output.empty() ? -1 : output.get(),
      failure_write.get()};
  const pid_t child = fork();
  if (child < 0) fail(ExitCode::failed, "cannot start {}: {}", command.front(), errno_text(errno));
  if (child == 0) become(start);
  failure_write = Descriptor();
  int error = 0;
  std::size_t count = 0;
  if (read_all(failure_read.get(), std::as_writable_bytes(std::span(&error, 1)), count) == 0 && count == sizeof error) {
    waitpid(child, nullptr, 0);
    fail(error == ENOENT ? ExitCode::no_input : ExitCode::failed, "cannot start {}: {}", command.front(),
         errno_text(error));
  }
  return child;
}

/// True if the child has ended. In this case, sets `exit_code`. Errors: failed.
bool has_ended(pid_t child, int& exit_code) {
  int status = 0;
  const pid_t ended = waitpid(child, &status, WNOHANG);
  if (ended < 0 && errno != EINTR) fail(ExitCode::failed, "cannot wait for a process: {}", errno_text(errno));
  if (ended != child) return false;
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : signal_base + WTERMSIG(status);
  return true;
}

}  // namespace

void hold_stop_signals() {
  const sigset_t held = stop_signals();
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

bool stop_requested() {
  const sigset_t stops = stop_signals();
  const timespec at_once{};
  return sigtimedwait(&stops, nullptr, &at_once) > 0;
}

ChildResult run_child(const std::vector<std::string>& command, const ChildSettings& settings) {
  std::signal(SIGCHLD, SIG_DFL);  // if CHLD were ignored, the signal would never arrive
  // SIGCHLD must be blocked before the child can end.
  const sigset_t ends = set_of({SIGCHLD});
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  sigset_t awaited = stop_signals();
  sigaddset(&awaited, SIGCHLD);
  ChildResult result;
  const pid_t child = start_child(command, settings);
  using Clock = std::chrono::steady_clock;
  Clock::time_point first_stop, last_signal;
  RankWatch ranks(child);
  constexpr timespec second{1, 0}, moment{0, 200'000'000};
  while (!has_ended(child, result.exit_code)) {
    const int signal = sigtimedwait(&awaited, nullptr, settings.is_mpirun ? &moment : &second);
    const bool is_stop = signal > 0 && signal != SIGCHLD;
    if (is_stop && !result.stopped) {
      result.stopped = true;
      first_stop = last_signal = Clock::now();
      kill(child, settings.stop_signal);
    } else if ((signal == SIGTERM || signal == SIGINT) && Clock::now() - first_stop >= std::chrono::seconds(1)) {
      // Two signals within a second count as one stop, because a process group may receive a stop twice.
      kill(child, SIGTERM);
      if (settings.is_mpirun) ranks.shorten_pause();
    } else if (signal < 0 && errno == EAGAIN) {
      if (settings.is_mpirun) ranks.poll();
      if (result.stopped && Clock::now() - last_signal >= std::chrono::seconds(1)) {
        kill(child, settings.stop_signal);  // mpirun loses signals that it receives before its ranks exist
        last_signal = Clock::now();
      }
    }
  }
  if (settings.is_mpirun && result.exit_code > signal_base) wait_for_session(child);
  // If the signal arrives before the child has installed its handler, the signal kills the child.
  if (result.stopped && result.exit_code == signal_base + settings.stop_signal) {
    result.exit_code = static_cast<int>(ExitCode::stopped);
  }
  return result;
}

int crash_signal(int exit_code) {
  const int signal = exit_code - signal_base;
  return signal > 0 && signal < NSIG && std::ranges::count(all_stop_signals, signal) == 0 ? signal : 0;
}

int exit_code_of(const ChildResult& result, const std::string& name) {
  const int signal = crash_signal(result.exit_code);
  if (signal == 0 || signal == SIGPIPE) return result.exit_code;
  if (result.error_line.empty()) {
    print_text(STDERR_FILENO, fmt::format("{}: signal {} ({}) ended {}\n", program_invocation_short_name, signal,
                                          strsignal(signal), name));
  }
  return static_cast<int>(ExitCode::lost_rank);
}

std::string shell_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The number of CHLD signals that end a pause of 15 s. Each signal shortens the pause by up to 1 s.
constexpr int signals_per_pause = 20;

bool has_running_member(pid_t session) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    const auto process = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (process > 0 && getsid(process) == session && !process_has_ended(process)) return true;
  }
  return false;
}

/// Shortens a pause of mpirun (docs/developer-guide/reliability.md).
void send_child_signals(pid_t mpirun, int count) {
  for (int i = 0; i < count && !process_has_ended(mpirun); ++i) {
    kill(mpirun, SIGCHLD);
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace

void RankWatch::poll() {
  constexpr milliseconds before_signals(300);
  constexpr seconds before_kill(30);
  if (running_children(mpirun_) > 0) {
    has_seen_ranks_ = true;
    idle_since_.reset();
    return;
  }
  if (!has_seen_ranks_) return;
  if (!idle_since_) idle_since_ = Clock::now();
  const Clock::duration idle = Clock::now() - *idle_since_;
  if (idle > before_kill) {
    kill(mpirun_, SIGKILL);
  } else if (idle > before_signals) {
    send_child_signals(mpirun_, 2 * signals_per_pause);
  }
}

void RankWatch::shorten_pause() const { send_child_signals(mpirun_, signals_per_pause); }

void wait_for_session(pid_t session) {
  constexpr int most_tries = 300;
  for (int tries = 0; tries < most_tries && has_running_member(session); ++tries) {
    std::this_thread::sleep_for(milliseconds(200));
  }
}

}  // namespace carillon
