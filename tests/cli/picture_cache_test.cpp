#include "src/cli/launch/picture_cache.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "carillon/core/error.h"
#include "src/cli/commands/commands.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Has a folder with two classes of twelve pictures each, and a directory for their records.
class PictureCache : public testing::Test {
 protected:
  PictureCache() {
    fs::remove_all(root_);
    for (const char* const name : {"cat", "dog"}) {
      fs::create_directories(root_ / "pictures" / name);
      for (int i = 0; i < 12; ++i) add(std::string(name) + "/" + std::to_string(i) + ".png");
    }
  }
  ~PictureCache() override { fs::remove_all(root_); }

  void add(const std::string& name) {
    fs::copy_file(fs::path(CARILLON_TEST_SAMPLES) / "../pictures/colour.png", root_ / "pictures" / name,
                  fs::copy_options::overwrite_existing);
  }
  PictureFolder look() const { return look_through({root_ / "pictures"}); }
  bool convert(std::vector<std::string> options = {"--validation-share", "0.25"}) const {
    PictureFolder pictures = look();
    return convert_if_changed(pictures, {data(), std::move(options)}, FolderLock(data()), tfrecord_convert);
  }
  static int tfrecord_convert(const std::vector<std::string>& words) {
    return convert_until(words, [] { return false; });
  }
  fs::path data() const { return root_ / "data"; }
  fs::path records() const { return data() / "train-00000-of-00001.tfrecord"; }
  /// Sets an old time on the file of records, which shows later whether a conversion has replaced the file.
  void mark() const { fs::last_write_time(records(), fs::file_time_type::clock::now() - std::chrono::hours(5)); }
  bool is_marked() const {
    return fs::last_write_time(records()) < fs::file_time_type::clock::now() - std::chrono::hours(4);
  }

  // Tests may run in parallel.
  fs::path root_ = fs::path(testing::TempDir()) / fmt::format("picture_cache_{}", getpid());
};

TEST_F(PictureCache, ConvertsAndCounts) {
  ASSERT_TRUE(convert());
  const CachedRecords records = count_records(data());
  EXPECT_EQ(records.training, 18);
  EXPECT_EQ(records.validation, 6);
  EXPECT_EQ(records.of("validation"), 6);
  EXPECT_EQ(records.of(""), 0);
}

TEST_F(PictureCache, LooksAtTheUsualSizeOfThePictures) {
  EXPECT_EQ(look().shape.side, 33);
  EXPECT_NEAR(look().shape.elongation, 45.0 / 33.0, 1e-6);
  std::ofstream(root_ / "pictures/cat/0.png") << "damaged";
  EXPECT_EQ(look().shape.side, 33);
}

TEST_F(PictureCache, UnchangedPicturesAreNotConvertedAgain) {
  ASSERT_TRUE(convert());
  mark();
  ASSERT_TRUE(convert());
  EXPECT_TRUE(is_marked());
}

TEST_F(PictureCache, ANewPictureChangesTheRecords) {
  ASSERT_TRUE(convert());
  mark();
  add("cat/new.png");
  ASSERT_TRUE(convert());
  EXPECT_FALSE(is_marked());
  const CachedRecords records = count_records(data());
  EXPECT_EQ(records.training + records.validation, 25);
}

TEST_F(PictureCache, APictureWithOtherContentsOfTheSameNameChangesTheRecords) {
  const PictureFolder before = look();
  fs::last_write_time(root_ / "pictures/cat/3.png", fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NE(look().fingerprint, before.fingerprint);
}

TEST_F(PictureCache, PicturesWithOtherTimesOrInAnotherFolderAreRecognisedByTheirContents) {
  ASSERT_TRUE(convert());
  mark();
  const PictureFolder before = look();
  fs::last_write_time(root_ / "pictures/cat/3.png", fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(convert());
  EXPECT_TRUE(is_marked());
  EXPECT_TRUE(holds_conversion(look(), {data(), {"--validation-share", "0.25"}}));  // decides this without reading the
                                                                                    // pictures
  fs::rename(root_ / "pictures", root_ / "moved");
  PictureFolder moved = look_through({root_ / "moved"});
  const Conversion conversion{data(), {"--validation-share", "0.25"}};
  ASSERT_TRUE(convert_if_changed(moved, conversion, FolderLock(data()), tfrecord_convert));
  EXPECT_TRUE(is_marked());
  // The records also suit pictures that were moved: the pictures at the new path have the contents of the converted
  // pictures.
  EXPECT_FALSE(holds_conversion({before.path, before.fingerprint, ""}, conversion));
  EXPECT_TRUE(holds_conversion({before.path, before.fingerprint, moved.contents}, conversion));
}

TEST_F(PictureCache, OneOtherByteChangesTheRecords) {
  ASSERT_TRUE(convert());
  mark();
  const fs::path file = root_ / "pictures/cat/3.png";
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-5, std::ios::end);
  bytes.put('x');
  bytes.close();
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  convert({"--validation-share", "0.25", "--skip-damaged"});
  EXPECT_FALSE(is_marked());
}

TEST_F(PictureCache, OtherOptionsChangeTheRecords) {
  ASSERT_TRUE(convert());
  mark();
  ASSERT_TRUE(convert({"--validation-share", "0.5"}));
  EXPECT_FALSE(is_marked());
}

TEST_F(PictureCache, ANewClassChangesTheRecords) {
  ASSERT_TRUE(convert());
  fs::create_directories(root_ / "pictures/bird");
  for (int i = 0; i < 12; ++i) add("bird/" + std::to_string(i) + ".png");
  ASSERT_TRUE(convert());
  const CachedRecords records = count_records(data());
  EXPECT_EQ(records.training + records.validation, 36);
}

TEST_F(PictureCache, AnInterruptedConversionIsRepeated) {
  ASSERT_TRUE(convert());
  std::ofstream(data() / "pictures.json") << "incomplete\n";
  mark();
  ASSERT_TRUE(convert());
  EXPECT_FALSE(is_marked());
}

/// The interrupted conversion had a split that the next conversion does not have.
TEST_F(PictureCache, AConversionThatWasInterruptedBetweenItsRenamesIsRepeated) {
  ASSERT_TRUE(convert());
  std::ofstream(data() / "pictures.json") << "incomplete\n";
  std::ofstream(data() / "unfinished_conversion.txt") << "1 1 test-00000-of-00001.tfrecord .test.tmp\n";
  ASSERT_TRUE(convert({"--validation-share", "0"}));
  EXPECT_EQ(count_records(data()).training, 24);
  EXPECT_FALSE(fs::exists(data() / "unfinished_conversion.txt"));
}

TEST_F(PictureCache, RecordsOfSomethingElseAreKept) {
  fs::create_directories(data());
  std::ofstream(data() / "train-00000-of-00001.tfrecord") << "mine";
  try {
    convert();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("--data-dir"), std::string::npos) << error.what();
  }
  EXPECT_EQ(fs::file_size(records()), 4u);
}

TEST_F(PictureCache, ADescriptionOfSomethingElseIsKept) {
  fs::create_directories(data());
  std::ofstream(data() / "labels.txt") << "mine";
  EXPECT_THROW(convert(), Error);
  EXPECT_EQ(fs::file_size(data() / "labels.txt"), 4u);
}

TEST_F(PictureCache, OnlyTheFilesOfAConversionAreRemoved) {
  ASSERT_TRUE(convert());
  std::ofstream(data() / "mine.tfrecord") << "mine";
  ASSERT_TRUE(convert({"--validation-share", "0.5"}));
  EXPECT_EQ(fs::file_size(data() / "mine.tfrecord"), 4u);
}

TEST_F(PictureCache, KnowsTheConversionThatItHolds) {
  ASSERT_TRUE(convert({"--validation-share", "0.5"}));
  EXPECT_TRUE(holds_conversion(look(), {data(), {"--validation-share", "0.5"}}));
  EXPECT_FALSE(holds_conversion(look(), {data(), {"--validation-share", "0.25"}}));
}

TEST_F(PictureCache, RecordsInUseAreNotReplaced) {
  ASSERT_TRUE(convert());
  mark();
  const FolderLock other(data());
  ASSERT_TRUE(other.try_lock(FolderLock::Kind::shared));
  EXPECT_TRUE(convert());  // several runs may use the same records
  EXPECT_THROW(convert({"--validation-share", "0.5"}), Error);
  EXPECT_TRUE(is_marked());
}

TEST_F(PictureCache, EqualRunsThatStartTogetherShareTheRecords) {
  std::atomic<int> conversions{0};
  const auto slow = [&](const std::vector<std::string>& words) {
    ++conversions;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return tfrecord_convert(words);
  };
  const PictureFolder pictures = look();
  const auto start = [&] {  // each run has its own file descriptors, as a separate process does
    return std::async(std::launch::async, [&, own = PictureFolder(pictures)]() mutable {
      return convert_if_changed(own, {data(), {}}, FolderLock(data()), slow);
    });
  };
  std::vector<std::future<bool>> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(start());
  for (std::future<bool>& run : runs) EXPECT_TRUE(run.get());
  EXPECT_EQ(conversions, 1);
}

TEST_F(PictureCache, ALinkInPlaceOfTheLockIsRefused) {
  fs::create_directories(data());
  fs::create_symlink(root_ / "victim", data() / ".carillon.lock");
  EXPECT_THROW(FolderLock{data()}, Error);
  EXPECT_FALSE(fs::exists(root_ / "victim"));
}

TEST_F(PictureCache, APathThatIsNotUtf8IsRefused) {
  const fs::path folder = root_ / "caf\xe9";
  fs::create_directories(folder);
  try {
    look_through({folder});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST_F(PictureCache, AFailedConversionKeepsItsExitCode) {
  fs::remove_all(root_ / "pictures/dog");
  fs::create_directories(root_ / "pictures/dog/empty");
  try {
    convert();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
  }
}

TEST_F(PictureCache, AStopEndsTheConversionWithoutRecords) {
  const auto stopping = [](const std::vector<std::string>& words) { return convert_until(words, [] { return true; }); };
  PictureFolder pictures = look();
  EXPECT_FALSE(convert_if_changed(pictures, {data(), {}}, FolderLock(data()), stopping));
  EXPECT_FALSE(fs::exists(records()));
  EXPECT_TRUE(convert());
}

TEST_F(PictureCache, AFolderWithoutPicturesIsMissingInput) {
  fs::create_directories(root_ / "nothing");
  for (const fs::path& folder : {root_ / "nothing", root_ / "absent"}) {
    try {
      look_through({folder});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::no_input);
    }
  }
}

}  // namespace
}  // namespace carillon
