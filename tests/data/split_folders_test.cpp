// Runs `tfrecord_convert images` on folders that are already divided into train, val and test.
#include <gmock/gmock.h>

#include "tests/data/picture_programs.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// One picture of each of the classes ant and bee, in folders of the given names.
class SplitFoldersTest : public PictureProgramsTest {
 protected:
  void put_split(const std::string& folder, int count) const {
    for (int i = 0; i < count; ++i) {
      for (const char* name : {"ant", "bee"})
        put(fmt::format("in/{}/{}/{}.jpg", folder, name, i), picture("colour.jpg"));
    }
  }
  std::size_t record_count(const std::string& split) const {
    const std::string name = split + "-00000-of-00001.tfrecord";
    return std::filesystem::exists(path("out/" + name)) ? records(name).size() : 0;
  }
};

TEST_F(SplitFoldersTest, BecomeTheSplits) {
  put_split("Train", 4);
  put_split("valid", 2);
  put_split("test", 3);
  const Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("recognised the splits train (" + path("in/Train") + "), validation (" +
                                        path("in/valid") + "), test (" + path("in/test") + ")\n"));
  EXPECT_EQ(record_count("train"), 8u);
  EXPECT_EQ(record_count("validation"), 4u);
  EXPECT_EQ(record_count("test"), 6u);
  EXPECT_EQ(read_dataset_info(path("out"))->classes, (std::vector<std::string>{"ant", "bee"}));
  expect_failure(convert("--validation-share 0.5"), ExitCode::usage, "already holds the split validation");
  expect_failure(convert("--split train"), ExitCode::usage, "already divided into splits");
}

TEST_F(SplitFoldersTest, ShareTheTrainingPicturesIfThereIsNoValidationFolder) {
  put_split("train", 4);
  put_split("test", 1);
  EXPECT_EQ(run(convert("--validation-share 0.25")).code, 0);
  EXPECT_EQ(record_count("train"), 6u);
  EXPECT_EQ(record_count("validation"), 2u);
  EXPECT_EQ(record_count("test"), 2u);
}

TEST_F(SplitFoldersTest, MayHoldOnlyTheClassesOfTheTraining) {
  put_split("train", 2);
  put_split("val", 1);
  std::filesystem::remove_all(path("in/val/ant"));
  EXPECT_EQ(run(convert()).code, 0);
  EXPECT_EQ(records("validation-00000-of-00001.tfrecord").at(0).label, 2);
  put("in/val/cat/0.jpg", picture("colour.jpg"));
  std::filesystem::remove_all(path("out"));
  expect_failure(convert(), ExitCode::data, "the class 'cat' is not among the 2 of " + path("in/train"));
}

TEST_F(SplitFoldersTest, WithoutClassesAreIgnoredWithAWarning) {
  put_split("train", 2);
  put("in/test/0.jpg", picture("colour.jpg"));
  const Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ignored " + path("in/test") + ": it has no folders of classes"));
  EXPECT_EQ(record_count("train"), 4u);
  EXPECT_EQ(record_count("test"), 0u);
}

TEST_F(SplitFoldersTest, AreClassesIfTheyHoldPicturesDirectly) {
  put("in/train/0.jpg", picture("colour.jpg"));
  put("in/train/steam/0.jpg", picture("colour.jpg"));
  put("in/test/0.jpg", picture("colour.jpg"));
  EXPECT_EQ(run(convert()).code, 0);
  EXPECT_EQ(read_dataset_info(path("out"))->classes, (std::vector<std::string>{"test", "train"}));
  EXPECT_EQ(record_count("train"), 3u);
}

TEST_F(SplitFoldersTest, ThatAreAmbiguousAreRefused) {
  put_split("train", 1);
  expect_failure(convert(), ExitCode::data, "if its folders are the classes, use --input " + path("in/train"));
  put_split("val", 1);
  put_split("validation", 1);
  expect_failure(convert(), ExitCode::data, "both hold the split validation");
  std::filesystem::remove_all(path("in/validation"));
  put("in/notes/about.txt", "text");
  EXPECT_EQ(run(convert()).code, 0);
  put("in/notes/0.jpg", picture("colour.jpg"));
  expect_failure(convert(), ExitCode::data, "in/notes: holds pictures");
}

}  // namespace
}  // namespace carillon
