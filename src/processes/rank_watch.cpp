#include "src/processes/rank_watch.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "src/core/process.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int signals_per_pause = 20;  ///< signals CHLD that end a pause of 15 s; each shortens it by up to 1 s

bool has_running_child(pid_t process) {
  std::error_code ended;
  for (const fs::directory_entry& thread :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task", ended)) {
    std::ifstream children(thread.path() / "children");
    for (int child = 0; children >> child;) {
      if (!process_has_ended(child)) return true;
    }
  }
  return false;
}

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
  if (has_running_child(mpirun_)) {
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
