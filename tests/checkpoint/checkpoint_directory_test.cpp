#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <span>
#include <thread>

#include "src/checkpoint/checkpoint.h"
#include "src/core/crc32c.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using testing::entry_count;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_text;
using testing::small_state;
using testing::TemporaryDirectory;
using testing::write_text;

class CheckpointDirectory : public ::testing::Test {
 protected:
  void put(std::int64_t step) { write_checkpoint(checkpoint_path(path(), step), small_state(step)); }
  void damage(std::int64_t step) {
    auto text = read_text(checkpoint_path(path(), step));
    text[text.size() / 2] ^= 1;
    write_text(checkpoint_path(path(), step), text);
  }
  auto read_newest() {
    return read_newest_checkpoint(path(), [this](const std::string& line) { warnings_.push_back(line); });
  }
  const std::filesystem::path& path() const { return directory_.path(); }

  TemporaryDirectory directory_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointDirectory, ListsItsStepsNewestFirstAndNothingElse) {
  for (const auto* name : {"model.ckpt-9.h5", "model.ckpt-10.h5", "model.ckpt-5000000000.h5", "model.ckpt-.h5",
                           "model.ckpt--1.h5", "model.ckpt-07.h5", "model.ckpt-1.h5.77.tmp", "model.ckpt-3", "x.h5"}) {
    write_text(path() / name, "");
  }
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(5000000000, 10, 9));
}

TEST_F(CheckpointDirectory, ThatIsMissingIsEmpty) {
  EXPECT_THAT(list_checkpoints(path() / "nowhere"), IsEmpty());
  EXPECT_EQ(read_newest_checkpoint(path() / "nowhere", nullptr), std::nullopt);
}

TEST_F(CheckpointDirectory, GivesItsNewest) {
  put(9);
  put(10);
  const auto loaded = read_newest();
  EXPECT_EQ(loaded.value().path, checkpoint_path(path(), 10));
  EXPECT_EQ(loaded.value().state.global_step, 10);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CheckpointDirectory, FallsBackToTheNewestThatLoadsWithALinePerDamagedFile) {
  for (const auto step : {1, 2, 3}) put(step);
  damage(2);
  write_text(checkpoint_path(path(), 3), "");
  EXPECT_EQ(read_newest().value().state.global_step, 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("model.ckpt-3.h5"), HasSubstr("model.ckpt-2.h5")));
}

TEST_F(CheckpointDirectory, GivesANewerOneIfARunRemovesTheListedOne) {
  put(0);
  CheckpointWriter writer(path(), {.newest = 1});
  std::atomic<bool> ends = false;
  std::thread run([&] {
    for (std::int64_t step = 1; !ends; ++step) writer.start(small_state(step));
    writer.finish();
  });
  std::int64_t newest = 0;
  for (int i = 0; i < 500; ++i) {
    const auto loaded = read_newest();
    ASSERT_TRUE(loaded.has_value());
    ASSERT_GE(loaded->state.global_step, newest);
    newest = loaded->state.global_step;
  }
  ends = true;
  run.join();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CheckpointDirectory, SkipsALinkToNothing) {
  put(9);
  std::filesystem::create_symlink("nowhere", checkpoint_path(path(), 10));
  EXPECT_EQ(read_newest().value().state.global_step, 9);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("model.ckpt-10.h5: no such file; skipped")));
}

TEST_F(CheckpointDirectory, WhereNoneLoadsIsBadData) {
  put(1);
  damage(1);
  const auto error = error_of([&] { read_newest(); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr(path().string()));
}

TEST_F(CheckpointDirectory, RejectsANewestCheckpointOfANewerFormatInsteadOfFallingBack) {
  put(1);
  put(2);
  auto text = read_text(checkpoint_path(path(), 2));
  text[8] = 2;  // changes the version in the header
  const auto crc = crc32c(std::as_bytes(std::span(text).first(508)));
  std::memcpy(text.data() + 508, &crc, sizeof crc);
  write_text(checkpoint_path(path(), 2), text);
  const auto error = error_of([&] { read_newest(); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("its header has version 2, this program reads only 1"));
}

TEST_F(CheckpointDirectory, RejectsANameWithAnotherStep) {
  put(1);
  put(2);
  std::filesystem::rename(checkpoint_path(path(), 2), checkpoint_path(path(), 5));
  const auto error = error_of([&] { read_newest(); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("model.ckpt-5.h5: holds step 2: rename it to model.ckpt-2.h5"));
}

TEST_F(CheckpointDirectory, LosesStaleTemporariesOnly) {
  put(1);
  for (const auto* name : {"model.ckpt-2.h5.4711.tmp", "metrics.jsonl.1.tmp"}) write_text(path() / name, "");
  for (const auto* name : {"notes.tmp", "notes.h5.1.tmp", "model.ckpt-2.h5.tmp"}) write_text(path() / name, "");
  remove_stale_temporaries(path());
  EXPECT_EQ(entry_count(path()), 4u);
  EXPECT_TRUE(std::filesystem::exists(path() / "model.ckpt-1.h5"));
  EXPECT_TRUE(std::filesystem::exists(path() / "notes.tmp"));
}

TEST_F(CheckpointDirectory, KeepsTheNewestOfItsWriter) {
  CheckpointWriter writer(path(), {.newest = 2});
  for (const auto step : {8, 9, 10, 11}) writer.start(small_state(step));
  writer.finish();
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(11, 10));
}

TEST_F(CheckpointDirectory, KeepsAllWithoutABound) {
  CheckpointWriter writer(path(), {.newest = 0});
  for (const auto step : {1, 2, 3}) writer.start(small_state(step));
  writer.finish();
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(3, 2, 1));
}

TEST_F(CheckpointDirectory, KeepsMultiplesBesidesTheNewest) {
  CheckpointWriter writer(path(), {.newest = 2, .every = 10});
  for (const auto step : {5, 10, 15, 20, 25, 30, 35}) writer.start(small_state(step));
  writer.finish();
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(35, 30, 20, 10));
}

TEST_F(CheckpointDirectory, OfOneFileHoldsTheLastStateAlone) {
  put(1);
  CheckpointWriter writer(best_checkpoint_path(path()));
  for (const auto step : {8, 9}) writer.start(small_state(step));
  writer.finish();
  EXPECT_EQ(read_checkpoint(best_checkpoint_path(path())).global_step, 9);
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(1));
}

TEST_F(CheckpointDirectory, NeverLosesTheNewOneToLaterDamagedOnes) {
  for (const auto step : {5, 20, 21}) put(step);
  damage(20);
  damage(21);
  CheckpointWriter writer(path(), {.newest = 1});
  writer.start(small_state(6));
  writer.finish();
  EXPECT_THAT(list_checkpoints(path()), ElementsAre(21, 20, 6));
}

TEST_F(CheckpointDirectory, ReportsAFailedWriteWhenItFinishes) {
  const auto missing = path() / "nowhere";
  CheckpointWriter writer(missing, {.newest = 2});
  writer.start(small_state(1));
  const auto error = error_of([&] { writer.finish(); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_THAT(error.what(), HasSubstr(missing.string()));
}

TEST_F(CheckpointDirectory, KeepsOldOnesWhenTheNewOneFails) {
  put(1);
  put(2);
  std::filesystem::create_directories(checkpoint_path(path(), 3) / "occupied");
  CheckpointWriter writer(path(), {.newest = 1});
  writer.start(small_state(3));
  EXPECT_EQ(error_of([&] { writer.finish(); }).code(), ExitCode::io);
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(path(), 1)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(path(), 2)));
}

TEST_F(CheckpointDirectory, WriterEndsWithItsFileWhole) {
  { CheckpointWriter(path(), {.newest = 1}).start(small_state(3)); }
  EXPECT_EQ(read_newest().value().state.global_step, 3);
}

}  // namespace
}  // namespace carillon
