#include "src/train/control/launcher_watch.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "carillon/core/error.h"
#include "src/core/process.h"
#include "src/train/control/stop_signal.h"

namespace carillon {
namespace {

using Clock = std::chrono::steady_clock;

/// Time in which a run without its launcher must save and end.
constexpr std::chrono::seconds orphan_limit(20);
constexpr std::chrono::milliseconds interval(100);

std::atomic<bool> is_starting = true, is_over = false, has_lost_mpirun = false;

/// A second after the end of mpirun, Open MPI would end this process (ompi_mpi_abort), also if the process is saving.
/// Open MPI's variable opal_abort_delay delays this. If the variable is missing, the run has one second to save.
void delay_abort_of_mpi() {
  if (void* const delay = dlsym(RTLD_DEFAULT, "opal_abort_delay")) {
    *static_cast<int*>(delay) = static_cast<int>(2 * orphan_limit.count());
  }
}

[[noreturn]] void end_now() {
  // Without its launcher, nothing would shorten mpirun's pauses.
  if (const int mpirun = mpirun_process(); mpirun > 0 && !has_lost_mpirun) kill(mpirun, SIGKILL);
  std::_Exit(static_cast<int>(ExitCode::lost_rank));
}

void stop() {
  struct sigaction action {};
  if (sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) end_now();
  kill(getpid(), SIGUSR1);
}

/// Notices that mpirun ends the run, or that a rank of this host has ended, while this rank starts.
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
  static constexpr std::chrono::seconds time_to_start{5};  ///< mpirun starts the ranks of a host at once
  int mpirun_, local_size_ = 0, most_ = 0;
  Clock::time_point began_ = Clock::now();
};

[[noreturn]] void watch(const std::string& launcher, const std::string& mpirun) {
  StartWatch start;
  std::optional<Clock::time_point> lost;
  while (true) {
    std::this_thread::sleep_for(interval);
    // The other rank, or mpirun, prints the cause.
    if (is_starting && start.has_lost_rank() && is_starting) std::_Exit(static_cast<int>(ExitCode::lost_rank));
    if (lost) {
      if (Clock::now() - *lost > orphan_limit) end_now();
      continue;
    }
    if (is_over) continue;
    has_lost_mpirun = identified_process_has_ended(mpirun);
    if (!has_lost_mpirun && !identified_process_has_ended(launcher)) continue;
    if (is_starting) end_now();  // nothing must be saved
    if (has_lost_mpirun) delay_abort_of_mpi();
    lost = Clock::now();
    stop();
  }
}

}  // namespace

void watch_launcher() {
  const char* const launcher = std::getenv(launcher_variable_name);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread handles no signals
  std::thread(watch, launcher == nullptr ? "" : launcher, process_identity(mpirun_process())).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void finish_start() { is_starting = false; }

void finish_watch() {
  is_starting = false;
  is_over = true;
}

bool mpirun_has_ended() { return has_lost_mpirun; }

}  // namespace carillon
