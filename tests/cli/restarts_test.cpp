#include "src/cli/launch/ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/cli/launch/child_process.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const std::string ended =
    "mnist_train: rank 0 on n1: the process of rank 2 has ended in compute of step 8; saved step 8";

TEST(HasLostRank, ByCodeAndLine) {
  const Words lost{
      ended,
      "mnist_train: rank 0 on n1: rank 2 hangs: it has been in compute of step 7 for 61 s",
      "mnist_train: rank 0 on n1: rank 2 hangs, stopped by a signal: it has been in data of step 7 for 6 s",
      "mnist_train: rank 1 on n1: hangs: it has been in data of step 7 for 61 s",
      "mnist_train: rank 0 on n1: waited 92 s for rank 2 on n2 in averaging without a response; saved",
      "mnist_train: rank 0 on n1: waited 3 s for rank 2 on n2 in averaging while the launcher ended the run",
      "mnist_train: rank 0 on n1: waited 3 s for rank 2 on n2 in averaging while the launcher ended the run",
      "mnist_train: rank 0 on n1: another rank ended the run; saved step 8 in runs/mnist/model.ckpt-8.h5"};
  for (const std::string& line : lost) {
    EXPECT_TRUE(has_lost_rank(70, line)) << line;
    EXPECT_TRUE(has_lost_rank(137, line)) << line;
    EXPECT_TRUE(has_lost_rank(128 + SIGTERM, line)) << line;
    for (const int code : {0, 1, 64, 65, 66, 69, 74, 75}) EXPECT_FALSE(has_lost_rank(code, line)) << code;
  }
  for (const char* const line : {"mnist_train: rank 0 on n1: Model diverged with loss = NaN at step 1",
                                 "mnist_train: rank 0 on n1: variables differ between ranks 0 and 1 at step 1"}) {
    EXPECT_FALSE(has_lost_rank(70, line)) << line;
    EXPECT_FALSE(has_lost_rank(137, line)) << line;
  }
}

TEST(HasLostRank, WithoutALineOnlyIfASignalKilledAllRanks) {
  EXPECT_TRUE(has_lost_rank(128 + SIGKILL, ""));
  EXPECT_TRUE(has_lost_rank(128 + SIGSEGV, ""));
  EXPECT_FALSE(has_lost_rank(70, ""));
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU}) EXPECT_FALSE(has_lost_rank(128 + signal, ""));
}

TEST(Resuming, ReplacesTheOptionsThatStartOver) {
  EXPECT_EQ(resuming({"mpirun", "-np", "2", "image_train", "--resume", "never", "--data", "a", "b", "--fresh"}),
            (Words{"mpirun", "-np", "2", "image_train", "--data", "a", "b", "--fresh=false", "--resume=auto"}));
}

/// A train directory, and a program that fails in its first starts.
class RunWithRestarts : public testing::Test {
 protected:
  RunWithRestarts()
      : directory_(fs::path(testing::TempDir()) / ("restarts_" + std::to_string(getpid()))), log_(directory_ / "log") {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~RunWithRestarts() override { fs::remove_all(directory_); }

  /// The exit code of the training. The shell script gets the number of the start in `n`.
  int run(const std::string& script, std::int64_t restarts) {
    const std::string text = "echo \"$@\" >>" + log_.string() + "; n=$(wc -l <" + log_.string() + "); cd " +
                             directory_.string() + "; lost() { echo '" + ended +
                             "' >>$CARILLON_ERROR_FILE; exit 70; }; " + script;
    return run_with_restarts(Launch{}, {"bash", "-c", text, "image_train", "--resume", "never"}, directory_, restarts)
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
  EXPECT_EQ(starts(), (Words{"--resume never", "--fresh=false --resume=auto"}));
}

TEST_F(RunWithRestarts, GivesUpWithoutANewCheckpoint) {
  EXPECT_EQ(run("kill -9 $$", 2), 70);
  EXPECT_EQ(starts().size(), 3U);
}

TEST_F(RunWithRestarts, ANewCheckpointBeginsTheCountAgain) {
  EXPECT_EQ(run("[ $n -gt 3 ] || touch model.ckpt-$n.h5; lost", 2), 70);
  EXPECT_EQ(starts().size(), 5U);  // three make a checkpoint, and two restarts follow the last one
}

TEST_F(RunWithRestarts, ReturnsTheCodeWithoutRestarts) {
  EXPECT_EQ(run("kill -9 $$", 0), 137);
  EXPECT_EQ(run("exit 65", 3), 65);
  EXPECT_EQ(run("echo 'Model diverged' >>$CARILLON_ERROR_FILE; exit 70", 3), 70);
  EXPECT_EQ(starts().size(), 3U);
}

volatile std::sig_atomic_t signals_seen = 0;

/// As mpirun after a failure: it runs a rank, then sleeps until a signal has shortened each pause.
[[noreturn]] void be_mpirun(int pauses) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // other tests block CHLD
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
