#include "src/comm/transport/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

using Places = SharedSegment::Places;

/// Tests that use an empty directory. All ranks use the same directory.
class SharedSegmentTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override {
    mpi_.barrier();
    std::filesystem::remove_all(directory_);
  }

  /// Expects that all ranks see the same memory. Sets the first element of each rank's part to rank + 1. All other
  /// elements must be 0.
  void expect_one_memory(const SharedSegment& segment) const {
    const auto first = [&](int rank) { return reinterpret_cast<int*>(segment.part(rank)); };
    for (int rank = 0; rank < mpi_.size(); ++rank) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first(rank)) % 64, 0u);
      EXPECT_TRUE(std::all_of(first(rank), first(rank) + bytes(rank) / sizeof(int), [](int x) { return x == 0; }));
    }
    mpi_.barrier();
    *first(mpi_.rank()) = mpi_.rank() + 1;
    mpi_.barrier();
    for (int rank = 0; rank < mpi_.size(); ++rank) EXPECT_EQ(*first(rank), rank + 1);
    mpi_.barrier();
  }

  /// Returns the size of a rank's part in bytes. The sizes of the ranks differ.
  static std::size_t bytes(int rank) { return sizeof(int) * static_cast<std::size_t>(1 + 5000 * rank); }
  const Members& ranks() const { return mpi_.ranks().local; }

  Mpi& mpi_ = mpi_world();
  std::string directory_ = mpi_.all_gather(
      fmt::format("{}/carillon-segment-{}", std::filesystem::temp_directory_path().string(), getpid()))[0];
};

TEST_F(SharedSegmentTest, IsOneMemoryForAllMembersWithoutAnyDirectory) {
  const SharedSegment segment(ranks(), bytes(mpi_.rank()), Places{.memory_file = true, .directories = {}});
  EXPECT_EQ(segment.place(), "memory");
  expect_one_memory(segment);
}

TEST_F(SharedSegmentTest, LastsUntilTheLastMemberFreesIt) {
  auto segment = std::make_optional<SharedSegment>(ranks(), sizeof(int));
  auto* const first = reinterpret_cast<int*>(segment->part(0));
  if (mpi_.rank() == 0) *first = 7;
  if (mpi_.rank() == 0 && mpi_.size() > 1) segment.reset();
  mpi_.barrier();
  if (mpi_.rank() > 0) {
    EXPECT_EQ(*first, 7);
  }
  mpi_.barrier();
}

TEST_F(SharedSegmentTest, IsInTheFirstDirectoryWithRoomIfMembersCannotShareAMemoryFile) {
  if (mpi_.size() == 1) return;  // a single rank shares nothing
  const Places places{.memory_file = false, .directories = {"/absent", "/sys", directory_, "/tmp"}};
  const SharedSegment segment(ranks(), bytes(mpi_.rank()), places);
  EXPECT_EQ(segment.place(), "a file in " + directory_);
  expect_one_memory(segment);
  EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "the file has no name any more";
}

TEST_F(SharedSegmentTest, WithoutRoomFailsOnAllRanksAndTheFirstNamesEachPlaceAndTheWayToMore) {
  if (mpi_.size() == 1) return;
  const Places places{.memory_file = false, .directories = {"/absent", "/sys"}};
  try {
    const SharedSegment segment(ranks(), std::size_t{1} << 20, places);
    ADD_FAILURE() << "is in " << segment.place();
  } catch (const SharedError& error) {
    EXPECT_EQ(mpi_.rank(), 0);
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_EQ(
        error.what(),
        fmt::format("{} ranks require {:.2f} MB of shared memory: /absent: No such file or directory; /sys has 0 "
                    "bytes free; set TMPDIR to a local directory with room, or enlarge /dev/shm, for example with "
                    "docker run --shm-size=1g",
                    mpi_.size(), 1.048576 * mpi_.size()));
  } catch (const PeerFailed& error) {
    EXPECT_GT(mpi_.rank(), 0);
    EXPECT_EQ(error.code(), ExitCode::io);
  }
}

/// Simulates containers: one rank sees a directory that does not exist for the other ranks.
TEST_F(SharedSegmentTest, IsNotInADirectoryThatOnlyOneMemberSees) {
  if (mpi_.size() == 1) return;
  constexpr int number = 500;  // a file descriptor that only rank 0 opens
  if (mpi_.rank() == 0) {
    const int folder = open(directory_.c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(fcntl(folder, F_DUPFD_CLOEXEC, number), number);
    close(folder);
  }
  const std::string seen_by_first = fmt::format("/proc/self/fd/{}", number);
  const SharedSegment segment(ranks(), 64, Places{.memory_file = false, .directories = {seen_by_first, directory_}});
  EXPECT_EQ(segment.place(), "a file in " + directory_);
  mpi_.barrier();  // at this point, rank 0 has removed the file's name
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  if (mpi_.rank() == 0) close(number);
}

}  // namespace
}  // namespace carillon::testing
