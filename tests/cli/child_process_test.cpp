#include "src/cli/launch/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "carillon/core/error.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
const ChildSettings usual{.stop_signal = SIGUSR1, .death_signal = SIGKILL};

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("launch_" + name + "_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

/// Waits until `file` exists. A child creates the file when the child is ready.
void await(const fs::path& file) {
  for (int i = 0; i < 1000 && !fs::exists(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(fs::exists(file)) << file;
}

TEST(RunChild, ReturnsTheExitCode) {
  EXPECT_EQ(run_child({"sh", "-c", "exit 75"}, usual).exit_code, 75);
  EXPECT_FALSE(run_child({"true"}, usual).stopped);
}

TEST(RunChild, ReportsASignalAsAShellDoes) { EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, usual).exit_code, 137); }

TEST(CrashSignal, IsNoStopSignal) {
  EXPECT_EQ(crash_signal(128 + SIGKILL), SIGKILL);
  EXPECT_EQ(crash_signal(128 + SIGSEGV), SIGSEGV);
  for (const int code : {0, 1, 75, 128, 205, 128 + SIGINT, 128 + SIGTERM, 128 + SIGHUP, 128 + SIGXCPU, 128 + SIGUSR1}) {
    EXPECT_EQ(crash_signal(code), 0) << code;
  }
}

TEST(ExitCodeOf, IsThatOfTheChildOr71) {
  EXPECT_EQ(exit_code_of({.exit_code = 65}, "child"), 65);
  EXPECT_EQ(exit_code_of({.exit_code = 128 + SIGTERM}, "child"), 128 + SIGTERM);
  EXPECT_EQ(exit_code_of({.exit_code = 128 + SIGPIPE}, "child"), 128 + SIGPIPE);
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of({.exit_code = 128 + SIGKILL, .error_line = "lost"}, "child"), 71);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "the child's own line says more";
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of({.exit_code = 128 + SIGKILL}, "child"), 71);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cli_test: signal 9 (Killed) ended child\n");
}

TEST(RunChild, AMissingProgramIsMissingInput) {
  try {
    run_child({"no-such-program-here"}, usual);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::no_input);
    EXPECT_STREQ(error.what(), "cannot start no-such-program-here: No such file or directory");
  }
}

TEST(RunChild, WritesTheOutputToAFileAndSetsTheEnvironment) {
  const fs::path file = scratch("output") / "out.txt";
  ChildSettings settings = usual;
  settings.output = file;
  settings.environment = {"LAUNCH_TEST=seen", "HOME=elsewhere"};
  EXPECT_EQ(run_child({"sh", "-c", "echo $LAUNCH_TEST $HOME; echo error >&2"}, settings).exit_code, 0);
  EXPECT_EQ(contents(file), "seen elsewhere\nerror\n");
}

TEST(RunChild, TheStandardInputIsEmpty) { EXPECT_EQ(run_child({"sh", "-c", "! read line"}, usual).exit_code, 0); }

/// Unblocks all signals when the test ends.
struct UsualSignals {
  UsualSignals() = default;
  UsualSignals(const UsualSignals&) = delete;
  UsualSignals& operator=(const UsualSignals&) = delete;
  ~UsualSignals() {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
  }
};

/// The parent blocks stop signals. The child must not inherit this.
TEST(RunChild, TheChildReceivesSignals) {
  const UsualSignals usual_signals;
  hold_stop_signals();
  EXPECT_EQ(run_child({"sh", "-c", "kill -TERM $$; exit 0"}, usual).exit_code, 128 + SIGTERM);
}

class StopSignal : public testing::TestWithParam<int> {};

TEST_P(StopSignal, TheFirstReachesTheChildAsItsStopSignal) {
  const UsualSignals usual_signals;
  const fs::path folder = scratch("stop");
  hold_stop_signals();
  std::thread sender([&] {
    await(folder / "ready");
    kill(getpid(), GetParam());
  });
  const std::string script = "trap 'exit 9' USR1; touch " + (folder / "ready").string() +
                             "; i=0; while [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done";
  const ChildResult result = run_child({"sh", "-c", script}, usual);
  sender.join();
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(stop_requested());
}
INSTANTIATE_TEST_SUITE_P(Signals, StopSignal, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGUSR1));

TEST(StopRequested, TakesAHeldSignal) {
  const UsualSignals usual_signals;
  hold_stop_signals();
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(stop_requested());
  EXPECT_FALSE(stop_requested());
}

/// If `carillon` is killed, mpirun must get a signal, so that its ranks save their state and end.
TEST(RunChild, TheChildReceivesTheDeathSignalOfAKilledParent) {
  const fs::path folder = scratch("death");
  const pid_t parent = fork();
  if (parent == 0) {
    const std::string script = "trap 'touch " + (folder / "told").string() + "; exit 0' USR1; touch " +
                               (folder / "ready").string() +
                               "; i=0; while [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done";
    run_child({"sh", "-c", script}, {.stop_signal = SIGUSR1, .death_signal = SIGUSR1});
    _exit(0);
  }
  await(folder / "ready");
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  await(folder / "told");
}

TEST(ShellLine, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_line({"image_train", "--data", "data/a b/train-*", "it's", ""}),
            "image_train --data 'data/a b/train-*' 'it'\\''s' ''");
}

}  // namespace
}  // namespace carillon
