#include "carillon/run/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace carillon::testing {
namespace {

/// In a process of its own: sends itself `first`, then, so much later, `second`; ends with 75 if it still can.
void send_two(int first, int second, unsigned microseconds) {
  catch_stop_signals();
  std::raise(first);
  ::usleep(microseconds);
  std::raise(second);
  std::_Exit(stop_signal_caught() ? 75 : 1);
}

constexpr unsigned at_once = 0, later = 1'200'000;

TEST(StopSignal, OfAnyKindIsNotedAndNoMore) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    EXPECT_EXIT(send_two(signal, SIGUSR1, at_once), ::testing::ExitedWithCode(75), "") << signal;
  }
}

TEST(StopSignal, ASecondTermOrIntEndsTheProcessAtOnce) {
  EXPECT_EXIT(send_two(SIGTERM, SIGTERM, later), ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(send_two(SIGUSR1, SIGINT, later), ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignal, OfOneStopSentTwiceIsOne) {
  EXPECT_EXIT(send_two(SIGTERM, SIGTERM, at_once), ::testing::ExitedWithCode(75), "");
  EXPECT_EXIT(send_two(SIGTERM, SIGUSR1, later), ::testing::ExitedWithCode(75), "");
}

bool blocks_all() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1);
}

/// In a process of its own: as send_two, but to the process, whose threads that compute take none.
void send_past_computation(int first, int second, unsigned microseconds) {
  catch_stop_signals();
  keep_stop_signals_from_computation();
  bool worker_blocks = false;
  std::thread([&] { worker_blocks = blocks_all(); }).join();
  if (!blocks_all() || !worker_blocks) std::_Exit(2);
  ::kill(::getpid(), first);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!stop_signal_caught() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ::usleep(microseconds);
  ::kill(::getpid(), second);
  ::usleep(100'000);
  std::_Exit(stop_signal_caught() ? 75 : 1);
}

TEST(StopSignal, IsTakenByAThreadThatDoesNotCompute) {
  EXPECT_EXIT(send_past_computation(SIGINT, SIGUSR1, at_once), ::testing::ExitedWithCode(75), "");
  EXPECT_EXIT(send_past_computation(SIGTERM, SIGINT, later), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace carillon::testing
