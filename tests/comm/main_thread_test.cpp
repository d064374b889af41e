#include "src/comm/stall/main_thread.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace carillon::testing {
namespace {

TEST(MainThread, WritesItsStackFromAStackOfTheHandlersOwn) {
  catch_stack_signal();
  struct sigaction action {};
  ASSERT_EQ(sigaction(SIGRTMIN, nullptr, &action), 0);
  stack_t stack{};
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_TRUE(action.sa_flags & SA_ONSTACK);
  EXPECT_FALSE(stack.ss_flags & SS_DISABLE);
  EXPECT_GE(stack.ss_size, 32U << 10);
  ::testing::internal::CaptureStderr();
  std::raise(SIGUSR2);
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(written.find("__libc_start_main"), std::string::npos) << "down to its start: " << written;
}

TEST(MainThread, AProcessHasEndedEvenIfNobodyFetchedItsExitCode) {
  EXPECT_FALSE(process_has_ended(getpid()));
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(0);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // it stays a zombie
  EXPECT_TRUE(process_has_ended(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_has_ended(child));
}

TEST(MainThread, AProcessStillRunsAfterItsMainThreadHasEnded) {
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
