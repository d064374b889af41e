#include "src/comm/stall/main_thread.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

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

}  // namespace
}  // namespace carillon::testing
