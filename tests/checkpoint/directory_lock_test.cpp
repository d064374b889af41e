#include "carillon/checkpoint/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <optional>

#include "carillon/core/error.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

class DirectoryLockTest : public ::testing::Test {
 protected:
  TemporaryDirectory temporary_;
  const std::filesystem::path directory = temporary_.path() / "train";
};

TEST_F(DirectoryLockTest, MakesTheDirectory) {
  const DirectoryLock lock(directory / "deep" / "er");
  EXPECT_TRUE(std::filesystem::is_directory(directory / "deep" / "er"));
}

TEST_F(DirectoryLockTest, ASecondHolderIsRefusedWithTheFirstOnesName) {
  const DirectoryLock lock(directory);
  try {
    const DirectoryLock second(directory);
    ADD_FAILURE() << "two holders";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("process " + std::to_string(getpid())));
  }
}

TEST_F(DirectoryLockTest, IsFreeOnceTheHolderIsGone) {
  { const DirectoryLock lock(directory); }
  const pid_t child = fork();
  if (child == 0) {
    std::optional<DirectoryLock> lock;
    lock.emplace(directory);
    _exit(0);  // dies holding it
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
