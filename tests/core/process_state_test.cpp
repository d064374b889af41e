#include "src/core/process_state.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace carillon::testing {
namespace {

TEST(ProcessState, AProcessHasEndedEvenIfNobodyFetchedItsExitCode) {
  EXPECT_FALSE(process_has_ended(getpid()));
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(0);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // it stays a zombie
  EXPECT_TRUE(process_has_ended(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_has_ended(child));
}

TEST(ProcessState, AProcessStillRunsAfterItsMainThreadHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(100)); }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(process_has_ended(child));
  kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace carillon::testing
