#include "src/train/control/stop_signal.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace carillon {
namespace {

// Written by the handler: time of the first signal in nanoseconds of the monotonic clock; 0: none.
std::atomic<std::int64_t> caught_at = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t nanoseconds = 1'000'000'000;

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * nanoseconds + time.tv_nsec;
}

void note_signal(int signal) {
  std::int64_t first = 0;
  if (caught_at.compare_exchange_strong(first, now()) || signal == SIGUSR1) return;
  if (now() - first < nanoseconds) return;  // the same stop: the launcher and the job's end both send it
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when the handler returns
}

}  // namespace

void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) std::signal(signal, note_signal);
}

bool stop_signal_caught() { return caught_at.load(std::memory_order_relaxed) != 0; }

}  // namespace carillon
