// Runs `tfrecord_convert images` on folders that are already divided into train, val and test.
#include "src/data/convert/split_folders.h"

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
  expect_failure(convert(), ExitCode::data, "if its folders are the classes, name " + path("in/train") + " instead");
  put_split("val", 1);
  put_split("validation", 1);
  expect_failure(convert(), ExitCode::data, "both hold the split validation");
  std::filesystem::remove_all(path("in/validation"));
  put("in/notes/about.txt", "text");
  EXPECT_EQ(run(convert()).code, 0);
  put("in/notes/0.jpg", picture("colour.jpg"));
  expect_failure(convert(), ExitCode::data, "in/notes: holds pictures");
}

TEST_F(SplitFoldersTest, AreRecognisedByTheWordsOfTheirNames) {
  for (const char* name : {"train", "TRAIN", "Training", "train_images", "TrainSet", "training-data", "traindata",
                           "seg_train", "01 train", "trainingset"}) {
    EXPECT_EQ(split_of_name(name), "train") << name;
  }
  for (const char* name : {"val", "Valid", "validation", "VAL_SET", "valImages", "dev", "evaluation"}) {
    EXPECT_EQ(split_of_name(name), "validation") << name;
  }
  for (const char* name : {"test", "Testing", "TestSet", "test-images", "testdata", "seg_test"}) {
    EXPECT_EQ(split_of_name(name), "test") << name;
  }
  for (const char* name : {"", "cat", "contest", "trainer", "strain", "devices", "valley", "trainval", "train_test"}) {
    EXPECT_EQ(split_of_name(name), "") << name;
  }
}

TEST_F(SplitFoldersTest, OfOtherNamesBecomeTheSplits) {
  put_split("Training", 3);
  put_split("Testing", 2);
  const Outcome outcome = run(convert());
  EXPECT_THAT(outcome.output, HasSubstr("recognised the splits train (" + path("in/Training") + "), test (" +
                                        path("in/Testing") + ")\n"));
  EXPECT_THAT(outcome.output, HasSubstr("classes: ant, bee\n"));
  EXPECT_EQ(record_count("train"), 6u);
  EXPECT_EQ(record_count("test"), 4u);
}

TEST_F(SplitFoldersTest, WithUnknownNamesAreNotTakenForClasses) {
  put_split("learning", 2);
  put_split("exam", 1);
  const std::string question = path("in") +
                               ": its folders exam, learning hold folders of the same names (ant, bee): if they are "
                               "splits, rename them train, val or test; if they are classes, add --layout classes";
  expect_failure(convert(), ExitCode::data, question);
  put("in/exam/cow/0.jpg", picture("colour.jpg"));
  expect_failure(convert(), ExitCode::data, question);  // a class more in one of them
  const Outcome outcome = run(convert("--layout classes"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("classes: exam, learning\n"));
  expect_failure(convert("--layout splits"), ExitCode::usage, "--layout 'splits': must be auto or classes");
}

TEST_F(SplitFoldersTest, AreClassesOnRequest) {
  put_split("train", 2);
  put_split("test", 1);
  EXPECT_THAT(run(convert("--layout classes")).output, HasSubstr("classes: test, train\n"));
  EXPECT_EQ(record_count("train"), 6u);
}

TEST_F(SplitFoldersTest, AreNotInClassesThatHoldPicturesOrOneFolderEach) {
  for (const char* name : {"ant", "bee"}) {
    put(fmt::format("in/{}/images/0.jpg", name), picture("colour.jpg"));  // as in Tiny ImageNet
    put(fmt::format("more/{}/young/0.jpg", name), picture("colour.jpg"));
    put(fmt::format("more/{}/old/0.jpg", name), picture("colour.jpg"));
  }
  put("more/bee/0.jpg", picture("colour.jpg"));
  EXPECT_THAT(run(convert()).output, HasSubstr("classes: ant, bee\n"));
  EXPECT_THAT(run("tfrecord_convert images --input " + path("more") + " --output " + path("out2")).output,
              HasSubstr("classes: ant, bee\n"));
}

TEST_F(SplitFoldersTest, MayHoldPicturesOfUnknownClass) {
  put_split("train", 2);
  put("in/test/unknown/0.jpg", picture("colour.jpg"));
  Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ignored " + path("in/test") + ": it has no folders of classes"));
  EXPECT_EQ(record_count("train"), 4u);
  EXPECT_EQ(record_count("test"), 0u);
  put_split("test", 1);
  outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ignored " + path("in/test/unknown") + ": the training has no class of this"));
  EXPECT_EQ(record_count("test"), 2u);
}

TEST_F(SplitFoldersTest, NamesThatDifferInUnicodeFormLookDifferentInTheMessage) {
  for (const char* name : {"train/caf\xC3\xA9", "train/th\xC3\xA9", "val/cafe\xCC\x81", "val/th\xC3\xA9"}) {
    put(fmt::format("in/{}/0.jpg", name), picture("colour.jpg"));
  }
  expect_failure(convert(), ExitCode::data,
                 "the class 'cafe\\u0301' is not among the 2 of " + path("in/train") + " (caf\xC3\xA9, th\xC3\xA9)");
}

TEST_F(SplitFoldersTest, AClassWithoutAUsablePictureInTheTestIsReported) {
  put_split("train", 2);
  put_split("test", 2);
  for (int i = 0; i < 2; ++i) put(fmt::format("in/test/bee/{}.jpg", i), "");
  const Outcome outcome = run(convert("--skip-damaged"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("no picture of the split test can be used for the class 'bee' (2)"));
  EXPECT_EQ(record_count("test"), 2u);
}

}  // namespace
}  // namespace carillon
