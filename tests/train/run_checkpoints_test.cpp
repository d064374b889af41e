#include "src/train/checkpointing/run_checkpoints.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path directory = std::filesystem::temp_directory_path();

TEST(FreeSpace, ForAllCheckpointsCausesNoWarning) {
  EXPECT_EQ(check_free_space(directory, {.checkpoint_bytes = 1, .count = 5}), "");
  EXPECT_EQ(check_free_space(directory / "not there", {.checkpoint_bytes = UINT64_MAX, .count = 5}), "");
}

TEST(FreeSpace, ForTheFirstButNotAllGivesAWarning) {
  EXPECT_THAT(check_free_space(directory, {.checkpoint_bytes = 1, .count = std::int64_t{1} << 60}),
              HasSubstr("the 1152921504606846976 checkpoints to come take"));
}

TEST(FreeSpace, ForNoCheckpointIsAnError) {
  const Error error =
      error_of([] { check_free_space(directory, {.checkpoint_bytes = std::uint64_t{1} << 60, .count = 1}); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_THAT(error.what(), HasSubstr("are free, a checkpoint takes 1099511627776.0 MiB"));
}

class CheckpointSaverTest : public ::testing::Test {
 protected:
  CheckpointSaver saver_of(std::int64_t max_failures) {
    return {std::make_unique<CheckpointWriter>(directory_.path(), CheckpointRetention{}),
            {.max_failures = max_failures, .warn = [this](const std::string& line) { warnings_.push_back(line); }}};
  }
  /// Looks at that time, until the result of a write in progress, or of one that begins then, is seen.
  static void poll(CheckpointSaver& saver, CheckpointSaver::Clock::time_point now) {
    for (saver.poll(now); saver.is_writing(); saver.poll(now)) std::this_thread::yield();
  }
  std::vector<std::int64_t> steps() const { return list_checkpoints(directory_.path()); }

  const CheckpointSaver::Clock::time_point start_ = CheckpointSaver::Clock::now();
  TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointSaverTest, WritesAFailedCheckpointAgainAfterASecond) {
  CheckpointSaver saver = saver_of(1);
  {
    const FileSizeLimit limit(100);
    saver.start(small_state(600));
    poll(saver, start_);
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("model.ckpt-600.h5: File too large; next attempt in 1 s (failure 1 of "
                                               "--checkpoint-failures 1 in a row)")));
  EXPECT_FALSE(saver.given_up());
  poll(saver, start_ + std::chrono::milliseconds(900));
  EXPECT_THAT(steps(), IsEmpty());
  poll(saver, start_ + seconds(1));
  saver.finish();
  EXPECT_THAT(steps(), ElementsAre(600));
  expect_equal(read_checkpoint(checkpoint_path(directory_.path(), 600)), small_state(600));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CheckpointSaverTest, GivesUpAfterTooManyFailures) {
  CheckpointSaver saver = saver_of(2);
  const FileSizeLimit limit(100);
  saver.start(small_state(600));
  poll(saver, start_);
  poll(saver, start_ + seconds(1));
  poll(saver, start_ + seconds(2));  // the second pause is twice the first
  EXPECT_FALSE(saver.given_up());
  poll(saver, start_ + seconds(3));
  ASSERT_TRUE(saver.given_up());
  EXPECT_EQ(saver.given_up()->code(), ExitCode::io);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(CheckpointSaverTest, OfNoFailuresGivesUpAtOnceAndCanSaveALastTime) {
  CheckpointSaver saver = saver_of(0);
  {
    const FileSizeLimit limit(100);
    saver.start(small_state(600));
    poll(saver, start_);
  }
  EXPECT_TRUE(saver.given_up());
  EXPECT_THAT(warnings_, IsEmpty());
  saver.start(small_state(601));
  saver.finish();
  EXPECT_THAT(steps(), ElementsAre(601));
}

TEST_F(CheckpointSaverTest, CountsFailuresInARowOnly) {
  CheckpointSaver saver = saver_of(1);
  for (const std::int64_t step : {1, 2}) {
    {
      const FileSizeLimit limit(100);
      saver.start(small_state(step));
      poll(saver, start_);
    }
    poll(saver, start_ + seconds(1));
  }
  EXPECT_FALSE(saver.given_up());
  EXPECT_THAT(steps(), ElementsAre(2, 1));
}

/// A retry must not write an empty file, and must state the reason again.
TEST_F(CheckpointSaverTest, ReportsAStateThatNoFileCanHoldUntilANewerOne) {
  CheckpointSaver saver = saver_of(5);
  CheckpointState bad = small_state(600);
  bad.variables = {{"a//b", {1}, {1.0f}}};
  saver.start(bad);
  poll(saver, start_);
  poll(saver, start_ + seconds(1));
  EXPECT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_, Each(HasSubstr("array name 'a//b' is no path")));
  EXPECT_THAT(steps(), IsEmpty());
  saver.start(small_state(900));
  saver.finish();
  EXPECT_THAT(steps(), ElementsAre(900));
}

TEST_F(CheckpointSaverTest, LetsANewerStateTakeAFailedOnesPlace) {
  CheckpointSaver saver = saver_of(5);
  {
    const FileSizeLimit limit(100);
    saver.start(small_state(600));
    poll(saver, start_);
  }
  saver.start(small_state(900));
  poll(saver, start_ + seconds(100));
  EXPECT_THAT(steps(), ElementsAre(900));
}

TEST_F(CheckpointSaverTest, ThatFinishesTriesAgainUntilItIsTooOften) {
  CheckpointSaver saver = saver_of(2);
  const FileSizeLimit limit(100);
  saver.start(small_state(600));
  const Error error = error_of([&] { saver.finish(); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_, Each(HasSubstr("next attempt in 1 s ")));  // not later: the run waits for it
}

}  // namespace
}  // namespace carillon::testing
