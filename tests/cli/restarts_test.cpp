#include "src/cli/launch/restarts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/cli/launch/child_process.h"
#include "src/cli/launch/ranks.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

TEST(HasLostRank, ByTheExitCode) {
  for (const int code : {71, 205, 128 + SIGKILL, 128 + SIGSEGV}) EXPECT_TRUE(has_lost_rank(code)) << code;
  for (const int code : {0, 1, 64, 65, 66, 69, 70, 74, 75}) EXPECT_FALSE(has_lost_rank(code)) << code;
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU}) EXPECT_FALSE(has_lost_rank(128 + signal));
}

TEST(Resuming, OmitsTheOptionsThatStartOver) {
  EXPECT_EQ(resuming({"--resume", "never", "--data", "a", "b", "--fresh"}), (Words{"--data", "a", "b"}));
  EXPECT_EQ(resuming({"--fresh", "True", "--resume", "require", "--resume-from", "x"}),
            (Words{"--resume", "require", "--resume-from", "x"}));
  EXPECT_EQ(resuming({"--fresh=1", "--resume=never"}), Words{});
  EXPECT_EQ(resuming({"--resume", "best", "--seed", "3", "--resume=best"}), (Words{"--seed", "3"}));
  setenv("CARILLON_FRESH", "true", 1);
  setenv("CARILLON_RESUME", "never", 1);
  EXPECT_EQ(resuming({"--seed", "3"}), (Words{"--seed", "3", "--fresh=false", "--resume=auto"}));
  unsetenv("CARILLON_FRESH");
  unsetenv("CARILLON_RESUME");
}

TEST(OptionValue, IsThatOfTheWordsTheFileOrTheEnvironment) {
  const fs::path config = fs::path(testing::TempDir()) / ("option_" + std::to_string(getpid()) + ".cfg");
  std::ofstream(config) << "seed = 3\n train_dir = runs/of file # a comment\n";
  const Words with_config{"--config", config.string()};
  EXPECT_EQ(option_value({"--train_dir", "a", "--seed", "1"}, "train-dir"), "a");
  EXPECT_EQ(option_value({"--train-dir=b"}, "train-dir"), "b");
  EXPECT_EQ(option_value(with_config, "train-dir"), "runs/of file");
  setenv("CARILLON_TRAIN_DIR", "c", 1);
  EXPECT_EQ(option_value(with_config, "train-dir"), "runs/of file");
  EXPECT_EQ(option_value({}, "train-dir"), "c");
  unsetenv("CARILLON_TRAIN_DIR");
  EXPECT_EQ(option_value({"--seed", "1"}, "train-dir"), "");
  EXPECT_EQ(train_directory("bin/mnist_train", {}), "runs/mnist");
  fs::remove(config);
}

/// Runs programs that fail at their first starts. All starts use one train directory.
class RunWithRestarts : public testing::Test {
 protected:
  RunWithRestarts()
      : directory_(fs::path(testing::TempDir()) / ("restarts_" + std::to_string(getpid()))), log_(directory_ / "log") {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~RunWithRestarts() override { fs::remove_all(directory_); }

  /// Returns the exit code of run_with_restarts. `script` is the program, a shell script. In the script, the variable
  /// `n` is the number of the start, from 1.
  int run(const std::string& script, std::int64_t restarts, const std::string& resume = "never") {
    const std::string text = "echo \"$3 $4\" >>" + log_.string() + "; n=$(wc -l <" + log_.string() + "); cd " +
                             directory_.string() + "; lost() { echo 71 >>$CARILLON_CODE_FILE; exit 137; }; " + script;
    return run_with_restarts({.launcher = {"bash", "-c", text},
                              .program = {"image_train", "--train-dir", directory_.string(), "--resume", resume},
                              .restarts = restarts,
                              .run = [](const Words& command, int /*start*/) { return Launch{}.run(command); },
                              .report = [](const std::string& /*line*/) {}})
        .exit_code;
  }

  Words starts() const {
    Words lines;
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  fs::path directory_, log_;
};

TEST_F(RunWithRestarts, StartsAgainAndResumes) {
  EXPECT_EQ(run("[ $n -gt 1 ] || lost", 3), 0);
  EXPECT_EQ(starts(), (Words{"--resume never", " "}));
}

/// With --resume best, a second start would remove the checkpoints of the first.
TEST_F(RunWithRestarts, ResumesFromTheBestStateOnlyUntilTheRunHasBegun) {
  std::ofstream(directory_ / "model.ckpt-3.h5") << "x";
  std::ofstream(directory_ / "model.ckpt-9.h5") << "x";
  EXPECT_EQ(run("[ $n -gt 3 ] && exit; [ $n -lt 2 ] || rm -f model.ckpt-9.h5; lost", 5, "best"), 0);
  EXPECT_EQ(starts(), (Words{"--resume best", "--resume best", " ", " "}));
}

TEST_F(RunWithRestarts, GivesUpWithoutANewCheckpoint) {
  EXPECT_EQ(run("kill -9 $$", 2), 70);
  EXPECT_EQ(starts().size(), 3U);
}

TEST_F(RunWithRestarts, ANewCheckpointBeginsTheCountAgain) {
  EXPECT_EQ(run("[ $n -gt 3 ] || touch model.ckpt-$n.h5; lost", 2), 70);
  EXPECT_EQ(starts().size(), 5U);  // the first three starts write checkpoints; two restarts follow the third start
}

TEST_F(RunWithRestarts, ReturnsTheCodeWithoutRestarts) {
  EXPECT_EQ(run("kill -9 $$", 0), 137);
  EXPECT_EQ(run("exit 65", 3), 65);
  EXPECT_EQ(run("echo 70 >>$CARILLON_CODE_FILE; kill -9 $$", 3), 70) << "the loss was not finite";
  EXPECT_EQ(run("echo 65 >>$CARILLON_CODE_FILE; lost", 3), 65) << "the first error is the cause";
  EXPECT_EQ(run("lost", 0), 71);
  EXPECT_EQ(starts().size(), 5U);
}

volatile std::sig_atomic_t signals_seen = 0;

/// Behaves as mpirun does after a failure: runs a rank, then sleeps `pauses` times; each signal ends one pause.
[[noreturn]] void be_mpirun(int pauses) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // other tests block SIGCHLD
  const pid_t rank = fork();
  if (rank == 0) {
    usleep(600'000);
    _exit(0);
  }
  waitpid(rank, nullptr, 0);
  std::signal(SIGCHLD, [](int) { signals_seen = signals_seen + 1; });
  while (signals_seen < pauses) sleep(100);
  _exit(70);
}

TEST(RankWatch, ShortensThePausesOfMpirunWithoutRanks) {
  const pid_t mpirun = fork();
  if (mpirun == 0) be_mpirun(30);
  RankWatch watch(mpirun);
  int status = 0;
  while (waitpid(mpirun, &status, WNOHANG) == 0) {
    watch.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(WEXITSTATUS(status), 70);
}

TEST(WaitForSession, ReturnsWhenTheLastProcessHasEnded) {
  const fs::path file = fs::path(testing::TempDir()) / ("session_" + std::to_string(getpid()));
  fs::remove(file);
  const pid_t leader = fork();
  if (leader == 0) {
    setsid();
    if (fork() == 0) {
      usleep(500'000);
      std::ofstream(file) << "done";
    }
    _exit(0);
  }
  waitpid(leader, nullptr, 0);
  wait_for_session(leader);
  EXPECT_TRUE(fs::exists(file));
  fs::remove(file);
}

}  // namespace
}  // namespace carillon
