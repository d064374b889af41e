#include "src/train/control/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

#include "src/report/console.h"

namespace carillon::testing {
namespace {

constexpr int stopped = 75;
constexpr unsigned at_once = 0, later = 1'200'000;

[[noreturn]] void end() { std::_Exit(stop_signal_caught() ? stopped : 1); }

/// Runs in a separate process. Sends the signal `first` to itself and, after the delay, the signal `second`. If neither
/// signal ends the process, the process exits with the code `stopped`.
void send_two(int first, int second, unsigned microseconds) {
  catch_stop_signals();
  std::raise(first);
  ::usleep(microseconds);
  std::raise(second);
  end();
}

TEST(StopSignal, OfAnyKindIsNotedAndNoMore) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGUSR1}) {
    EXPECT_EXIT(send_two(signal, SIGUSR1, at_once), ::testing::ExitedWithCode(stopped), "") << signal;
  }
}

TEST(StopSignal, ASecondTermOrIntEndsTheProcessAtOnce) {
  EXPECT_EXIT(send_two(SIGTERM, SIGTERM, later), ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(send_two(SIGUSR1, SIGINT, later), ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignal, OfOneStopSentTwiceIsOne) {
  EXPECT_EXIT(send_two(SIGTERM, SIGTERM, at_once), ::testing::ExitedWithCode(stopped), "");
  for (const int second : {SIGUSR1, SIGHUP, SIGXCPU}) {
    EXPECT_EXIT(send_two(SIGTERM, second, later), ::testing::ExitedWithCode(stopped), "") << second;
  }
}

void ignore_hup() {
  std::signal(SIGHUP, SIG_IGN);  // the state under nohup
  catch_stop_signals();
  std::raise(SIGHUP);
  std::_Exit(stop_signal_caught() ? 1 : 0);
}

TEST(StopSignal, HupStaysIgnoredUnderNohup) { EXPECT_EXIT(ignore_hup(), ::testing::ExitedWithCode(0), ""); }

void continue_alone() {
  catch_stop_signals();
  std::raise(SIGCONT);
  std::_Exit(stop_signal_caught() ? 1 : 0);
}

TEST(StopSignal, IsNotAContFromAnyProcessButMpirun) { EXPECT_EXIT(continue_alone(), ::testing::ExitedWithCode(0), ""); }

/// Behaves as mpirun does: starts a child process that runs `child`, and sends each signal of `signals` to it. Before
/// each signal, pauses for `pause` microseconds. Ends with the status of the child.
void run_under_mpirun(const std::function<void()>& child, std::initializer_list<int> signals, unsigned pause) {
  prctl(PR_SET_NAME, "mpirun");
  int ready[2] = {};
  if (::pipe(ready) != 0) std::_Exit(3);
  const pid_t process = ::fork();
  if (process == 0) {
    catch_stop_signals();
    static_cast<void>(!::write(ready[1], "r", 1));
    child();
    std::_Exit(2);
  }
  char byte = 0;
  static_cast<void>(!::read(ready[0], &byte, 1));
  for (const int signal : signals) {
    ::usleep(pause);
    ::kill(process, signal);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFSIGNALED(status)) std::raise(WTERMSIG(status));
  std::_Exit(WEXITSTATUS(status));
}

/// Simulates a save: returns this number of microseconds after the first signal.
template <unsigned microseconds>
void save() {
  const StopNotice notice(
      52, [] { return 40; }, [] { return false; });
  while (!stop_signal_caught()) ::usleep(1000);
  for (unsigned waited = 0; waited < microseconds; waited += 1000) ::usleep(1000);  // each signal ends one usleep early
  end();
}

TEST(StopSignal, OfMpirunBeginsWithContAndEndsNothingItself) {
  EXPECT_EXIT(
      run_under_mpirun(save<later + 600'000>, {SIGCONT, SIGTERM}, later), ::testing::ExitedWithCode(stopped),
      "^caught mpirun's stop signal in step 52: the run saves a checkpoint after this step and ends; the newest "
      "complete checkpoint is of step 40. mpirun kills the run in 2 s, saved or not. For more time: mpirun "
      "--mca odls_base_sigkill_timeout 15, [^\n]*\n$");
}

TEST(StopSignal, OfMpirunThatWaitsLongNamesNoWayToMoreTime) {
  ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "15", 1);
  EXPECT_EXIT(run_under_mpirun(save<at_once>, {SIGCONT}, at_once), ::testing::ExitedWithCode(stopped),
              "^caught mpirun's stop signal in step 52: [^\n]* is of step 40\n$");
  ::unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
}

TEST(StopSignal, IsNoContOfAnMpirunThatForwardsIt) {
  ::setenv("OMPI_MCA_orte_forward_job_control", "1", 1);
  EXPECT_EXIT(run_under_mpirun(save<at_once>, {SIGCONT, SIGTERM}, at_once), ::testing::ExitedWithCode(stopped),
              "^caught TERM in step 52: [^\n]* mpirun kills the run in 1 s, [^\n]*\n$");
  ::unsetenv("OMPI_MCA_orte_forward_job_control");
}

TEST(StopSignal, OfMpirunThatRanksSurviveIsUsr1) {
  EXPECT_EXIT(run_under_mpirun(save<at_once>, {SIGUSR1}, at_once), ::testing::ExitedWithCode(stopped),
              "^asked to stop in step 52: [^\n]* is of step 40\n$");
}

void notice_twice() {
  catch_stop_signals();
  StopNotice notice(
      7, [] { return -1; }, [] { return false; });
  notice.enter_step(8);
  std::raise(SIGINT);
  std::raise(SIGUSR1);
  end();
}

TEST(StopNotice, IsOneLineForTheFirstSignal) {
  EXPECT_EXIT(notice_twice(), ::testing::ExitedWithCode(stopped),
              "^caught INT in step 8: the run saves a checkpoint after this step and ends; no checkpoint is complete "
              "yet\n$");
}

void notice_beside_bar() {
  catch_stop_signals();
  const StopNotice notice(
      8, [] { return 4; }, [] { return false; });
  Progress bar(0, 10, {STDERR_FILENO, Progress::Form::bar});
  bar.update(8, std::nullopt);
  std::raise(SIGINT);
  end();
}

TEST(StopNotice, BeginsItsOwnLineBelowABar) {
  EXPECT_EXIT(notice_beside_bar(), ::testing::ExitedWithCode(stopped), "left\ncaught INT in step 8: [^\n]*\n$");
}

void notice_late() {
  catch_stop_signals();
  std::raise(SIGHUP);
  const StopNotice notice(
      0, [] { return -1; }, [] { return false; });
  end();
}

TEST(StopNotice, ComesLaterIfTheSignalCameBeforeTheFirstStep) {
  EXPECT_EXIT(notice_late(), ::testing::ExitedWithCode(stopped), "^caught HUP in step 0: [^\n]*\n$");
}

void notice_of_failed_run() {
  catch_stop_signals();
  const StopNotice notice(
      8, [] { return -1; }, [] { return true; });
  std::raise(SIGTERM);
  end();
}

TEST(StopNotice, DoesNotFollowTheErrorLineOfAnotherRank) {
  EXPECT_EXIT(notice_of_failed_run(), ::testing::ExitedWithCode(stopped), "^$");
}

}  // namespace
}  // namespace carillon::testing
