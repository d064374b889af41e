#include "src/checkpoint/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <optional>

#include "carillon/core/error.h"
#include "tests/support/io_fixtures.h"

namespace {

enum class Locks { all, none, of_files } locks = Locks::all;  // the locks of the simulated file system

bool is_directory(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

/// Replaces the C library's flock in the whole test program.
extern "C" int flock(int descriptor, int operation) {
  if (locks == Locks::all || (locks == Locks::of_files && !is_directory(descriptor))) {
    return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  }
  errno = locks == Locks::none ? ENOLCK : EBADF;
  return -1;
}

namespace carillon::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DirectoryLockTest : public ::testing::Test {
 protected:
  ~DirectoryLockTest() override { locks = Locks::all; }

  void expect_in_use_by(const std::string& holder) const {
    const Error error = error_of([&] { const DirectoryLock second(directory); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(holder));
  }
  static std::string me() { return "process " + std::to_string(getpid()); }

  TemporaryDirectory temporary_;
  const std::filesystem::path directory = temporary_.path() / "train";
};

TEST_F(DirectoryLockTest, MakesTheDirectory) {
  const DirectoryLock lock(directory / "deep" / "er");
  EXPECT_TRUE(std::filesystem::is_directory(directory / "deep" / "er"));
}

TEST_F(DirectoryLockTest, ASecondHolderIsRefusedWithTheFirstOnesNameAndJob) {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  const DirectoryLock lock(directory);
  ::unsetenv("SLURM_JOB_ID");
  expect_in_use_by(me() + ", job 4711");
}

TEST_F(DirectoryLockTest, OutlastsItsFile) {
  const DirectoryLock lock(directory);
  std::filesystem::remove(directory / ".lock");
  expect_in_use_by("a run (its .lock file was removed)");
  EXPECT_FALSE(std::filesystem::exists(directory / ".lock"));
}

TEST_F(DirectoryLockTest, WritesNothingThroughALink) {
  const auto precious = temporary_.path() / "precious";
  write_text(precious, "kept");
  std::filesystem::create_directories(directory);
  std::filesystem::create_symlink(precious, directory / ".lock");
  const Error error = error_of([&] { const DirectoryLock lock(directory); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_THAT(error.what(), HasSubstr(".lock is not a regular file"));
  EXPECT_EQ(read_text(precious), "kept");
}

TEST_F(DirectoryLockTest, ALockThatIsNotAPlainFileIsAnIoErrorAtOnce) {
  std::filesystem::create_directories(directory);
  ASSERT_EQ(mkfifo((directory / ".lock").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { const DirectoryLock lock(directory); }).code(), ExitCode::io);
}

TEST_F(DirectoryLockTest, ARefusedHolderLeavesTheFirstOnesNameThere) {
  const DirectoryLock lock(directory);
  const std::string before = read_text(directory / ".lock");
  expect_in_use_by(me());
  EXPECT_EQ(read_text(directory / ".lock"), before);
}

TEST_F(DirectoryLockTest, WithoutLocksWarnsAndIsKnownByItsHeartbeat) {
  locks = Locks::none;
  std::vector<std::string> warnings;
  const DirectoryLock lock(directory, [&](const std::string& line) { warnings.push_back(line); });
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("has no locks")));
  expect_in_use_by(me());
  locks = Locks::all;  // another host; its file system supports locks
  expect_in_use_by(me());
}

TEST_F(DirectoryLockTest, WithoutLocksOfDirectoriesTheFileIsLockedAndItsLossMadeUpFor) {
  locks = Locks::of_files;
  std::vector<std::string> warnings;
  const DirectoryLock lock(directory, [&](const std::string& line) { warnings.push_back(line); });
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  expect_in_use_by(me());
  std::filesystem::remove(directory / ".lock");
  expect_in_use_by(me());
}

TEST_F(DirectoryLockTest, AQueryReturnsWhetherItIsHeldFreeOrMissing) {
  EXPECT_EQ(look_at_lock(directory), LockState::absent);
  {
    const DirectoryLock lock(directory);
    EXPECT_EQ(look_at_lock(directory), LockState::held);
  }
  EXPECT_EQ(look_at_lock(directory), LockState::free);
  const DirectoryLock again(directory);  // succeeds: look_at_lock keeps no lock
  locks = Locks::none;
  EXPECT_EQ(look_at_lock(directory), LockState::none);
}

TEST_F(DirectoryLockTest, LeavesNoHeartbeat) {
  locks = Locks::none;
  { const DirectoryLock lock(directory); }
  EXPECT_FALSE(std::filesystem::exists(directory / ".heartbeat"));
}

TEST(HeartbeatTest, IsSeenWhileItBeatsAndNotOnceItStands) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "beats";
  // Heartbeat::holder waits for a beat. With until_a_beat, it waits long enough even for a late beat. With in_vain,
  // which is for tests without a beat, it soon gives up.
  const HeartbeatTimes until_a_beat{.interval = milliseconds(20), .limit = std::chrono::hours(1)};
  const HeartbeatTimes in_vain{.interval = milliseconds(20), .limit = milliseconds(50)};
  EXPECT_EQ(Heartbeat::holder(path, until_a_beat), "");
  {
    const Heartbeat heartbeat(path, "host a, process 1", until_a_beat);
    EXPECT_EQ(Heartbeat::holder(path, until_a_beat), "host a, process 1");
  }
  write_text(path, "host a, process 1\nbeat 9\n");  // as left by a killed process
  EXPECT_EQ(Heartbeat::holder(path, in_vain), "");
}

TEST(HeartbeatTest, OfADeadProcessIsRemoved) {
  const TemporaryDirectory directory;
  write_text(directory.path() / "beats", "host a, process 1\nbeat 9\n");
  Heartbeat::holder(directory.path() / "beats", {.interval = milliseconds(20), .limit = milliseconds(50)});
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "beats"));
}

TEST(HeartbeatTest, OfTwoThatStartTogetherIsOnesOnly) {
  const TemporaryDirectory directory;
  const Heartbeat first(directory.path() / "beats", "host a, process 1");
  const Error error = error_of([&] { const Heartbeat second(directory.path() / "beats", "host b, process 2"); });
  EXPECT_EQ(error.code(), ExitCode::usage);
}

TEST(HeartbeatTest, IsNotWrittenThroughALink) {
  const TemporaryDirectory directory;
  write_text(directory.path() / "precious", "kept");
  const auto path = directory.path() / "beats";
  const Heartbeat heartbeat(path, "host a, process 1", {.interval = milliseconds(10)});
  const auto link = directory.path() / "link";
  std::filesystem::create_symlink(directory.path() / "precious", link);
  std::filesystem::rename(link, path);  // writes the file by one call, so that no beat creates the file in between
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(read_text(directory.path() / "precious"), "kept");
}

TEST_F(DirectoryLockTest, IsFreeOnceTheHolderIsGone) {
  { const DirectoryLock lock(directory); }
  const pid_t child = fork();
  if (child == 0) {
    std::optional<DirectoryLock> lock;
    lock.emplace(directory);
    _exit(0);  // the child ends while it holds the lock
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NO_THROW(DirectoryLock{directory});
}

TEST_F(DirectoryLockTest, AFileInThePlaceOfTheDirectoryIsAnIoError) {
  std::filesystem::create_directories(directory);
  fclose(fopen((directory / "file").c_str(), "w"));
  try {
    const DirectoryLock lock(directory / "file");
    ADD_FAILURE() << "a file was taken for a directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
  }
}

}  // namespace
}  // namespace carillon::testing
