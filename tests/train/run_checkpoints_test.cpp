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

class CheckpointRetriesTest : public ::testing::Test {
 protected:
  CheckpointWriter writer_of(std::int64_t max_failures) {
    return {directory_.path(),
            {},
            {.max_failures = max_failures,
             .limit_name = "--checkpoint-failures",
             .warn = [this](const std::string& line) { warnings_.push_back(line); }}};
  }
  /// Polls the writer with the time `now` until it is not writing.
  static void poll(CheckpointWriter& writer, CheckpointWriter::Clock::time_point now) {
    for (writer.poll(now); writer.is_writing(); writer.poll(now)) std::this_thread::yield();
  }
  std::vector<std::int64_t> steps() const { return list_checkpoints(directory_.path()); }

  const CheckpointWriter::Clock::time_point start_ = CheckpointWriter::Clock::now();
  TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointRetriesTest, WritesAFailedCheckpointAgainAfterASecond) {
  CheckpointWriter writer = writer_of(1);
  {
    const FileSizeLimit limit(100);
    writer.start(small_state(600));
    poll(writer, start_);
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("model.ckpt-600.h5: File too large; next attempt in 1 s (failure 1 of "
                                               "--checkpoint-failures 1 in a row)")));
  EXPECT_FALSE(writer.given_up());
  poll(writer, start_ + std::chrono::milliseconds(900));
  EXPECT_THAT(steps(), IsEmpty());
  poll(writer, start_ + seconds(1));
  writer.finish();
  EXPECT_THAT(steps(), ElementsAre(600));
  expect_equal(read_checkpoint(checkpoint_path(directory_.path(), 600)), small_state(600));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CheckpointRetriesTest, GivesUpAfterTooManyFailures) {
  CheckpointWriter writer = writer_of(2);
  const FileSizeLimit limit(100);
  writer.start(small_state(600));
  poll(writer, start_);
  poll(writer, start_ + seconds(1));
  poll(writer, start_ + seconds(2));  // the second pause is twice as long as the first
  EXPECT_FALSE(writer.given_up());
  poll(writer, start_ + seconds(3));
  ASSERT_TRUE(writer.given_up());
  EXPECT_EQ(writer.given_up()->code(), ExitCode::io);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(CheckpointRetriesTest, OfNoFailuresGivesUpAtOnceAndCanSaveALastTime) {
  CheckpointWriter writer = writer_of(0);
  {
    const FileSizeLimit limit(100);
    writer.start(small_state(600));
    poll(writer, start_);
  }
  EXPECT_TRUE(writer.given_up());
  EXPECT_THAT(warnings_, IsEmpty());
  writer.start(small_state(601));
  writer.finish();
  EXPECT_THAT(steps(), ElementsAre(601));
}

TEST_F(CheckpointRetriesTest, CountsFailuresInARowOnly) {
  CheckpointWriter writer = writer_of(1);
  for (const std::int64_t step : {1, 2}) {
    {
      const FileSizeLimit limit(100);
      writer.start(small_state(step));
      poll(writer, start_);
    }
    poll(writer, start_ + seconds(1));
  }
  EXPECT_FALSE(writer.given_up());
  EXPECT_THAT(steps(), ElementsAre(2, 1));
}

/// After the failure, the writer tries again. It must not write an empty file, and it must report the reason again.
TEST_F(CheckpointRetriesTest, ReportsAStateThatNoFileCanHoldUntilANewerOne) {
  CheckpointWriter writer = writer_of(5);
  CheckpointState bad = small_state(600);
  bad.variables = {{"a//b", {1}, {1.0f}}};
  writer.start(bad);
  poll(writer, start_);
  poll(writer, start_ + seconds(1));
  EXPECT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_, Each(HasSubstr("array name 'a//b' is no path")));
  EXPECT_THAT(steps(), IsEmpty());
  writer.start(small_state(900));
  writer.finish();
  EXPECT_THAT(steps(), ElementsAre(900));
}

TEST_F(CheckpointRetriesTest, LetsANewerStateTakeAFailedOnesPlace) {
  CheckpointWriter writer = writer_of(5);
  {
    const FileSizeLimit limit(100);
    writer.start(small_state(600));
    poll(writer, start_);
  }
  writer.start(small_state(900));
  poll(writer, start_ + seconds(100));
  EXPECT_THAT(steps(), ElementsAre(900));
}

TEST_F(CheckpointRetriesTest, ThatFinishesTriesAgainUntilItIsTooOften) {
  CheckpointWriter writer = writer_of(2);
  const FileSizeLimit limit(100);
  writer.start(small_state(600));
  const Error error = error_of([&] { writer.finish(); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_, Each(HasSubstr("next attempt in 1 s ")));  // the pause is only 1 s, because finish waits for
                                                                    // this attempt
}

}  // namespace
}  // namespace carillon::testing
