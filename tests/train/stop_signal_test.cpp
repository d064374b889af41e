#include "src/train/control/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace carillon::testing {
namespace {

/// Runs in a separate process: sends `first` to itself, and `second` after the delay; ends with 75 if it still can.
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

}  // namespace
}  // namespace carillon::testing
