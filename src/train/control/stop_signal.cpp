#include "src/train/control/stop_signal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "carillon/core/error.h"
#include "src/core/process.h"
#include "src/report/console.h"

namespace carillon {
namespace {

constexpr std::int64_t nanoseconds = 1'000'000'000;
/// The number of seconds in which most runs can save. If mpirun waits this long, the notice does not suggest a longer
/// time.
constexpr std::int64_t enough_seconds = 20;

/// The mpirun, or its daemon on this host, that started this process.
struct Launcher {
  pid_t process = 0;                    ///< 0: another launcher started this process, or none
  bool is_daemon = false;               ///< true: the launcher is a daemon, and its stderr differs from mpirun's
  bool forwards_cont = false;           ///< true: CONT from this launcher may mean only that a stopped job continues
  std::int64_t kill_pause = 1;          ///< seconds from CONT to TERM, and also from TERM to KILL
  std::array<char, 32> error_stream{};  ///< path of the launcher's stderr, a C string
};

std::int64_t integer_in_environment(const char* name, std::int64_t fallback) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return fallback;
  const std::string_view all = text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(all.begin(), all.end(), value);
  return error == std::errc() && end == all.end() && value >= 0 ? value : fallback;
}

Launcher find_launcher() {
  const pid_t parent = getppid();
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", parent)), name);
  constexpr std::array<std::string_view, 4> commands{"mpirun", "mpiexec", "orterun", "prterun"};
  constexpr std::array<std::string_view, 2> daemons{"orted", "prted"};
  const bool is_daemon = std::ranges::count(daemons, name) > 0;
  if (!is_daemon && std::ranges::count(commands, name) == 0) return {};
  const std::int64_t pause = integer_in_environment("OMPI_MCA_odls_base_sigkill_timeout", 1);
  Launcher found{.process = parent,
                 .is_daemon = is_daemon,
                 .forwards_cont = integer_in_environment("OMPI_MCA_orte_forward_job_control", 0) != 0,
                 .kill_pause = integer_in_environment("PRTE_MCA_odls_base_sigkill_timeout", pause)};
  fmt::format_to_n(found.error_stream.begin(), found.error_stream.size() - 1, "/proc/{}/fd/2", parent);
  return found;
}

/// The first signal, and the process that sent it.
struct Caught {
  int signal = 0;  ///< number of the signal; 0: none
  bool from_launcher = false;
};

/// The number of seconds that a rank waits for other ranks after TERM, if the launcher is not mpirun. Slurm's KillWait
/// is 30 s.
constexpr double other_patience = 20.0;

/// If its kill timeout is 0, mpirun kills the ranks within milliseconds after CONT. During these milliseconds, a rank
/// must not report that the other ranks have ended.
constexpr double least_patience = 0.2;

bool has_handlers = false;
Launcher launcher;  // set before the handlers are installed; needs no destructor, so a late signal may read it

// The handler writes these variables. `caught_at`: time of the first signal in nanoseconds of the monotonic clock; 0:
// none.
std::atomic<std::int64_t> caught_at = 0;
std::atomic<Caught> caught;
std::atomic<std::int64_t> ending_since = 0;  ///< time of the first TERM, or of the first signal other than USR1 from
                                             ///< mpirun; same unit as `caught_at`; 0: none
std::atomic<bool> mpirun_has_signalled = false;  ///< mpirun has sent a signal that ends the run
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<Caught>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * nanoseconds + time.tv_nsec;
}

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGTERM:
      return "TERM";
    case SIGINT:
      return "INT";
    case SIGHUP:
      return "HUP";
    case SIGXCPU:
      return "XCPU";
    default:
      return "USR1";
  }
}

/// A line of limited length. Building it allocates no memory.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t size = std::min(text.size(), text_.size() - size_);
    std::copy_n(text.begin(), size, text_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += size;
    return *this;
  }
  Line& operator<<(std::int64_t number) {
    std::array<char, 20> digits{};
    const auto [end, error] = std::to_chars(digits.begin(), digits.end(), number);
    return *this << std::string_view(digits.begin(), end);
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 600> text_{};
  std::size_t size_ = 0;
};

/// Returns the stderr of mpirun if it is a terminal or a pipe, otherwise -1. If stderr is a file, mpirun's next line
/// would overwrite our line.
int open_launcher_stderr() {
  if (launcher.is_daemon) return -1;
  const int file = open(launcher.error_stream.data(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat status {};
  if (file >= 0 && fstat(file, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode))) return file;
  if (file >= 0) close(file);
  return -1;
}

bool write_all(int file, std::string_view text) {
  return write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// State of the StopNotice. The handler reads the functions only between an increment and a decrement of `readers`.
struct NoticeState {
  std::function<std::int64_t()> saved_step;
  std::function<bool()> run_fails;
};
NoticeState notice_state;
std::atomic<bool> notice_exists = false, notice_written = false;
std::atomic<std::int64_t> notice_step = 0;
std::atomic<int> readers = 0;

void write_line(const Caught& of) {
  Line line;
  if (Progress::has_bar()) line << "\n";
  if (of.signal == SIGUSR1) {  // a launcher or Slurm usually sends USR1 instead of the signal that it received
    line << "asked to stop";
  } else {
    line << "caught " << (of.signal == SIGCONT ? "mpirun's stop signal" : name_of(of.signal));
  }
  line << " in step " << notice_step.load() << ": the run saves a checkpoint after this step and ends; ";
  const std::int64_t saved = notice_state.saved_step();
  if (saved >= 0) {
    line << "the newest complete checkpoint is of step " << saved;
  } else {
    line << "no checkpoint is complete yet";
  }
  const bool is_killed = of.from_launcher && of.signal != SIGUSR1;
  const std::int64_t seconds = launcher.kill_pause * (of.signal == SIGCONT ? 2 : 1);
  if (is_killed && seconds < enough_seconds) {
    line << ". mpirun kills the run in " << seconds
         << " s, saved or not. For more time: mpirun --mca odls_base_sigkill_timeout 15, jobs/single_node.sh, "
            "carillon train, or kill -USR1 (process number of mpirun)";
  }
  line << "\n";
  // mpirun relays output of the ranks only after it has killed them.
  const int direct = is_killed ? open_launcher_stderr() : -1;
  const bool done = direct >= 0 && write_all(direct, line.text());
  if (direct >= 0) close(direct);
  if (!done) static_cast<void>(write_all(STDERR_FILENO, line.text()));
}

/// Writes the line if a StopNotice exists, a signal has been caught and no other rank has failed. Writes the line at
/// most once.
void write_notice() {
  readers.fetch_add(1);
  const Caught of = caught.load();
  if (notice_exists && of.signal != 0 && !notice_state.run_fails() && !notice_written.exchange(true)) write_line(of);
  readers.fetch_sub(1);
}

void note_signal(int signal, siginfo_t* info, void* /*context*/) {
  const int own_errno = errno;
  const bool from_launcher = info->si_code == SI_USER && launcher.process != 0 && info->si_pid == launcher.process;
  if (signal == SIGCONT && (!from_launcher || launcher.forwards_cont)) return;
  if (from_launcher && signal != SIGUSR1) mpirun_has_signalled = true;
  if (signal == SIGTERM || (from_launcher && signal != SIGUSR1)) {
    std::int64_t none = 0;
    ending_since.compare_exchange_strong(none, now());
  }
  std::int64_t first = 0;
  if (caught_at.compare_exchange_strong(first, now())) {
    caught.store({signal, from_launcher});
    write_notice();
  } else if ((signal == SIGTERM || signal == SIGINT) && !from_launcher && now() - first >= nanoseconds) {
    // This branch requires that a second has passed. A signal within this second belongs to the same stop, because the
    // launcher and the end of the job each send a signal.
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // this signal is delivered when the handler returns
  }
  errno = own_errno;
}

void catch_signals(std::initializer_list<int> signals) {
  launcher = find_launcher();
  has_handlers = true;
  for (const int signal : signals) {
    struct sigaction before {
    }, action{};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    action.sa_sigaction = note_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTTOU);  // a terminal may stop background processes that write to it
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void catch_stop_signals() { catch_signals({SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGXCPU, SIGCONT}); }

void catch_end_of_run() {
  if (!has_handlers) catch_signals({SIGCONT});
}

int mpirun_process() { return launcher.process; }

bool mpirun_ends_run() { return mpirun_has_signalled; }

bool stop_signal_caught() { return caught_at.load(std::memory_order_relaxed) != 0; }

bool should_save_alone(double waited) {
  const std::int64_t since = ending_since;
  if (since == 0) return false;
  const double patience =
      launcher.process != 0 ? std::max(least_patience, 0.5 * static_cast<double>(launcher.kill_pause)) : other_patience;
  const double passed = static_cast<double>(now() - since) / nanoseconds;
  return passed > patience && waited > patience;
}

StopNotice::StopNotice(std::int64_t step, std::function<std::int64_t()> saved_step, std::function<bool()> run_fails) {
  notice_state = {std::move(saved_step), std::move(run_fails)};
  notice_step = step;
  notice_exists = true;
  write_notice();  // a stop signal may have arrived before the notice existed
}

StopNotice::~StopNotice() {
  notice_exists = false;
  while (readers != 0) std::this_thread::yield();
}

void StopNotice::enter_step(std::int64_t step) { notice_step.store(step, std::memory_order_relaxed); }

namespace {

using Clock = std::chrono::steady_clock;

/// The longest time that a run may need to save and end after its launcher has ended.
constexpr std::chrono::seconds orphan_limit(20);
constexpr std::chrono::milliseconds interval(100);

std::atomic<bool> is_starting = true, is_over = false, has_lost_mpirun = false;

/// One second after mpirun has ended, Open MPI would end this process (ompi_mpi_abort), even if the process is saving.
/// Open MPI's variable opal_abort_delay extends this time. If the variable is missing, the run has one second to save.
void delay_abort_of_mpi() {
  if (void* const delay = dlsym(RTLD_DEFAULT, "opal_abort_delay")) {
    *static_cast<int*>(delay) = static_cast<int>(2 * orphan_limit.count());
  }
}

[[noreturn]] void end_now() {
  // The program that started mpirun has ended, so no other program would shorten mpirun's pauses.
  if (const int mpirun = mpirun_process(); mpirun > 0 && !has_lost_mpirun) kill(mpirun, SIGKILL);
  std::_Exit(static_cast<int>(ExitCode::lost_rank));
}

void stop() {
  struct sigaction action {};
  if (sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) end_now();
  kill(getpid(), SIGUSR1);
}

/// While this rank starts, notices that mpirun ends the run, or that a rank of this host has ended.
class StartWatch {
 public:
  StartWatch() : mpirun_(mpirun_process()) {
    const char* const text = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    local_size_ = text == nullptr ? 0 : std::atoi(text);
  }

  bool has_lost_rank() {
    if (mpirun_ends_run()) return true;
    if (mpirun_ == 0) return false;
    const int ranks = running_children(mpirun_);
    most_ = std::max(most_, ranks);
    const bool all_were_started = most_ >= local_size_ || Clock::now() - began_ > time_to_start;
    return all_were_started && ranks < local_size_;
  }

 private:
  static constexpr std::chrono::seconds time_to_start{5};  ///< after this time, all ranks of a host exist
  int mpirun_, local_size_ = 0, most_ = 0;
  Clock::time_point began_ = Clock::now();
};

/// The arguments are identities of processes (process_identity).
[[noreturn]] void watch(StartWatch start, const std::string& starter, const std::string& mpirun) {
  std::optional<Clock::time_point> lost;
  while (true) {
    std::this_thread::sleep_for(interval);
    // The rank that ended, or mpirun, prints the cause.
    if (is_starting && start.has_lost_rank() && is_starting) std::_Exit(static_cast<int>(ExitCode::lost_rank));
    if (lost) {
      if (Clock::now() - *lost > orphan_limit) end_now();
      continue;
    }
    if (is_over) continue;
    has_lost_mpirun = identified_process_has_ended(mpirun);
    if (!has_lost_mpirun && !identified_process_has_ended(starter)) continue;
    if (is_starting) end_now();  // there is nothing to save
    if (has_lost_mpirun) delay_abort_of_mpi();
    lost = Clock::now();
    stop();
  }
}

}  // namespace

void watch_launcher() {
  const char* const starter = std::getenv(launcher_variable_name);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask, so that it handles no signals
  // StartWatch reads the environment here: in the thread, that could crash while MPI_Init changes the environment.
  std::thread(watch, StartWatch(), starter == nullptr ? "" : starter, process_identity(mpirun_process())).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void finish_start() { is_starting = false; }

void finish_watch() {
  is_starting = false;
  is_over = true;
}

bool mpirun_has_ended() { return has_lost_mpirun; }

}  // namespace carillon
