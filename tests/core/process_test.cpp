#include "src/core/process.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace carillon::testing {
namespace {

TEST(ProcessFile, HasTheBytesOfTheFile) { EXPECT_EQ(process_file(getpid(), "comm"), "core_test\n"); }

TEST(ProcessFile, IsEmptyIfReadingFailsOrTheProcessHasEnded) {
  EXPECT_EQ(process_file(getpid(), "task"), "");  // a directory can be opened, but not read
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_file(child, "stat"), "");
}

TEST(ProcessState, AProcessHasEndedEvenIfNobodyFetchedItsExitCode) {
  EXPECT_FALSE(process_has_ended(getpid()));
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(0);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // WNOWAIT: the child stays a zombie
  EXPECT_TRUE(process_has_ended(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_has_ended(child));
}

TEST(ProcessState, AProcessStillRunsAfterItsMainThreadHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(100)); }).detach();
    syscall(SYS_exit, 0);  // ends only the main thread
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(process_has_ended(child));
  kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessIdentity, DistinguishesAProcessFromALaterOneWithItsNumber) {
  const std::string own = process_identity(getpid());
  EXPECT_FALSE(identified_process_has_ended(own));
  const std::string number = std::to_string(getpid()) + ":";
  ASSERT_TRUE(own.starts_with(number));
  EXPECT_TRUE(identified_process_has_ended(number + "1" + own.substr(own.find(':', number.size()))));
}

TEST(ProcessIdentity, OfAnEndedProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    pause();
    std::_Exit(0);
  }
  const std::string identity = process_identity(child);
  EXPECT_FALSE(identified_process_has_ended(identity));
  kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(identified_process_has_ended(identity));
}

TEST(ProcessIdentity, OfAnotherHostOrNoProcessIsUnknown) {
  EXPECT_FALSE(identified_process_has_ended(""));
  EXPECT_FALSE(identified_process_has_ended("999999999:1:4026531836:another-boot"));
  EXPECT_EQ(process_identity(0), "");
}

TEST(ExitAfter, EndsTheProcessInACallThatDoesNotReturn) {
  const auto hang = [] {
    exit_after(0.05, 65);
    while (true) pause();
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(65), "");
}

constexpr int kept[] = {SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGCONT, SIGUSR1, SIGUSR2};
constexpr unsigned long_enough = 10'000'000;  // microseconds

std::atomic<int> taken_by;
void note_taker(int) { taken_by = gettid(); }

bool blocks_all() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (const int signal : kept) {
    if (!sigismember(&blocked, signal)) return false;
  }
  return true;
}

/// Runs in a separate process. Ends the process with 75 if only the signal thread receives signals. This thread, and a
/// thread that it starts, must receive no signals.
void send_all() {
  for (const int signal : kept) std::signal(signal, note_taker);
  keep_signals_from_computation();
  int worker = 0;
  bool worker_blocks = false;
  std::thread([&] { worker = gettid(), worker_blocks = blocks_all(); }).join();
  if (!blocks_all() || !worker_blocks) std::_Exit(1);
  for (const int signal : kept) {
    taken_by = 0;
    ::kill(::getpid(), signal);
    for (unsigned waited = 0; taken_by == 0 && waited < long_enough; waited += 1000) ::usleep(1000);
    if (taken_by == 0 || taken_by == gettid() || taken_by == worker) std::_Exit(2);
  }
  std::_Exit(75);
}

void send_without_handler() {
  keep_signals_from_computation();
  ::kill(::getpid(), SIGTERM);
  ::usleep(long_enough);
  std::_Exit(1);
}

TEST(SignalThread, ReceivesTheSignalsOfTheProcess) { EXPECT_EXIT(send_all(), ::testing::ExitedWithCode(75), ""); }

TEST(SignalThread, LeavesSignalsTheirDefaultEffect) {
  EXPECT_EXIT(send_without_handler(), ::testing::KilledBySignal(SIGTERM), "");
}

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
