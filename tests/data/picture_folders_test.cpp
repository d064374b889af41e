// Tests which files in a folder are pictures, and which folders are classes or splits.
#include "src/data/convert/picture_folders.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <map>

#include "tests/data/picture_programs.h"

namespace carillon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string box(4, '\0');

class FolderScanTest : public PictureProgramsTest {
 protected:
  std::vector<std::string> found() const {
    std::vector<std::string> names;
    for (const std::filesystem::path& file : scan_folder(path("in")).pictures) {
      names.push_back(file.lexically_relative(path("in")).string());
    }
    return names;
  }
  std::map<std::string, int> counts() const {
    std::map<std::string, int> count;
    for (const Stored& stored : records("train-00000-of-00001.tfrecord")) ++count[stored.text];
    return count;
  }
};

TEST_F(FolderScanTest, FindsPicturesByTheirContent) {
  put("in/a.jfif", picture("colour.jpg"));
  put("in/b", picture("colour.png"));
  put("in/c.dat", picture("lossy.webp"));
  put("in/d.ppm", "P6 1 1 255\nabc");
  put("in/e.TXT", picture("palette.gif"));
  put("in/f", "BM" + std::string(12, '\0') + std::string("\x28\0\0\0", 4));
  put("in/g", box + "ftypheic....");
  put("in/h.jpg", "text, but the name of a picture");
  EXPECT_THAT(found(), ElementsAre("a.jfif", "b", "c.dat", "d.ppm", "e.TXT", "f", "g", "h.jpg"));
}

TEST_F(FolderScanTest, IgnoresOtherFilesAndCountsThem) {
  put("in/a.txt", "BMW and other names");
  put("in/b.txt", "P6 is no picture");
  put("in/c.mov", box + "ftypqt  ....");
  put("in/d.mp4", box + "ftypisom....");
  put("in/e.dng", picture("colour.tif"));  // like a camera's raw file, which begins with a preview in TIFF format
  put("in/f", "");
  ASSERT_EQ(::mkfifo(path("in/g").c_str(), 0600), 0);  // the program must not read it, because it would wait for ever
  put("in/h.png", picture("colour.png"));
  EXPECT_THAT(found(), ElementsAre("h.png"));
  const FolderScan scan = scan_folder(path("in"));
  EXPECT_EQ(scan.ignored.count, 7u);
  EXPECT_EQ(scan.ignored.example, path("in/a.txt"));
}

TEST_F(FolderScanTest, IgnoresFoldersOfServersAndArchivers) {
  put("in/a.png", picture("colour.png"));
  for (const char* name :
       {"@eaDir/a.png", "__MACOSX/._a.png", "__MACOSX/b.png", "#recycle/b.png", ".thumbnails/b.png"}) {
    put(std::string("in/") + name, picture("colour.png"));
  }
  put("in/deep/@eaDir/b.png/SYNOPHOTO_THUMB_M.jpg", picture("colour.jpg"));
  put("in/deep/@eadir.png", picture("colour.png"));
  EXPECT_THAT(found(), ElementsAre("a.png", "deep/@eadir.png"));
}

TEST_F(FolderScanTest, TheFoldersOfServersAndArchiversAreNoClasses) {
  put_classes(2);
  put("in/@eaDir/bee/0.jpg", picture("colour.jpg"));
  put("in/__MACOSX/ant/._0.jpg", "x");
  put("in/bee/@eaDir/000.jpg/SYNOPHOTO_THUMB_M.jpg", picture("colour.jpg"));
  const Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("classes: ant, bee\n"));
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 2}, {"bee", 2}}));
}

TEST_F(FolderScanTest, EveryPictureOfAClassIsConvertedWhateverItsName) {
  put_classes(1);
  put("in/bee/1.jfif", picture("colour.jpg"));
  put("in/bee/2", picture("colour.png"));
  put("in/bee/notes", "text");
  put("in/bee/notes.txt", "text");
  put("in/readme.md", "text");
  const Outcome outcome = run(convert());
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 1}, {"bee", 3}}));
  EXPECT_THAT(outcome.output, HasSubstr("ignored 2 files in " + path("in") + ": no picture, for example bee/notes\n"));
  EXPECT_THAT(outcome.output,
              HasSubstr("ignored 1 file in " + path("in") + ": not in the folder of a class, for example readme.md\n"));
}

TEST_F(FolderScanTest, APictureThatCannotBeOpenedIsSkipped) {
  put_classes(2);
  std::filesystem::create_symlink("/nowhere/x.jpg", path("in/bee/dangling.jpg"));
  std::filesystem::create_symlink("loop.jpg", path("in/bee/loop.jpg"));
  ASSERT_EQ(::mkfifo(path("in/bee/pipe.jpg").c_str(), 0600), 0);
  const Outcome outcome = run(convert("--skip-damaged"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("skipped: " + path("in/bee/dangling.jpg") + ": no such file\n"));
  EXPECT_THAT(outcome.output, HasSubstr("; skipped 3 pictures that cannot be opened\n"));
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 2}, {"bee", 2}}));
  std::filesystem::remove(path("in/bee/loop.jpg"));
  std::filesystem::remove(path("in/bee/pipe.jpg"));
  expect_failure(convert("--overwrite"), ExitCode::no_input, "in/bee/dangling.jpg: no such file");
}

TEST_F(FolderScanTest, AClassWithoutAUsablePictureIsRefused) {
  put_classes(12);
  for (int i = 0; i < 12; ++i) put(fmt::format("in/cow/{}.jpg", i), "");
  for (int i = 0; i < 11; ++i) std::filesystem::create_symlink("/nowhere", path(fmt::format("in/cow/link{}.jpg", i)));
  const Outcome outcome = run(convert("--skip-damaged --validation-share 0.25"));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr(path("in") + ": no picture of the split train can be used for the class 'cow' "
                                                     "(17): see the messages above; mend the pictures, or remove the "
                                                     "folder\n"));
  EXPECT_FALSE(std::filesystem::exists(path("out/records.json")));
  put("in/cow/good.jpg", picture("colour.jpg"));
  EXPECT_EQ(run(convert("--skip-damaged")).code, 0);
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 12}, {"bee", 12}, {"cow", 1}}));
}

TEST_F(FolderScanTest, SmallClassesAreCountedAfterDamagedPicturesAreSkipped) {
  put_classes(10);
  put("in/bee/000.jpg", "");
  EXPECT_THAT(run(convert("--skip-damaged")).output, HasSubstr("fewer than 10 per class: bee (9)\n"));
}

TEST_F(FolderScanTest, NumbersAreScaledByThePicturesThatAreWritten) {
  put("in/0.jpg", picture("colour.jpg"));
  put("in/1.jpg", picture("colour.jpg"));
  put("in/2.jpg", "");
  const std::string csv = write("targets.csv", "path,age\n0.jpg,1\n1.jpg,3\n2.jpg,1000\n");
  EXPECT_EQ(run(convert("--skip-damaged --targets " + csv)).code, 0);
  const DatasetInfo info = read_dataset_info(path("out")).value();
  EXPECT_EQ(info.scales.at(0).mean, 2.0);
  EXPECT_EQ(info.scales.at(0).deviation, 1.0);
}

TEST_F(FolderScanTest, SkippedPicturesAreCountedByReason) {
  put_classes(1);
  put("in/bee/1.jpg", "");
  put("in/bee/2.heic", box + "ftypheic....");
  put("in/bee/3.avif", box + "ftypavif....");
  std::string large = picture("colour.png");
  large.replace(16, 8, std::string("\0\0\xEA\x60\0\0\xEA\x60", 8));
  const std::string header = large.substr(12, 17);
  std::uint32_t check = static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(header.data()), 17));
  for (int i = 3; i >= 0; --i, check >>= 8) large[29 + i] = static_cast<char>(check);
  put("in/bee/4.png", large);
  const Outcome outcome = run(convert("--skip-damaged"));
  EXPECT_THAT(outcome.output, HasSubstr("2 classes; skipped 1 damaged picture, 2 pictures in a format that is "
                                        "not read, 1 picture that is too large\n"));
  EXPECT_THAT(outcome.output, HasSubstr(path("in/bee/4.png") +
                                        ": has 60000 x 60000 pixels; up to 100 million are read, and 65535 a "
                                        "side; shrink it: mogrify -resize '4096x4096>' " +
                                        path("in/bee/4.png") + "\n"));
}

/// Runs the commands that error messages advise. Stubs replace the programs of ImageMagick and libheif.
class AdviceTest : public FolderScanTest {
 protected:
  void SetUp() override {
    FolderScanTest::SetUp();
    write("good.png", picture("colour.png"));
    stand_in("mogrify", "for file; do :; done\ncp " + path("good.png") + " \"$file\"\n");
    stand_in("heif-convert", "cp " + path("good.png") + " \"$2\"\n");
  }
  void stand_in(const std::string& name, const std::string& script) const {
    put("programs/" + name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(path("programs/" + name), std::filesystem::perms::owner_all);
  }
  /// Expects that `command` fails with a message that contains another command, which begins at `start`. Runs that
  /// other command, and expects that `command` then succeeds.
  void expect_advice_helps(const std::string& command, const std::string& start) const {
    const Outcome outcome = run(command);
    EXPECT_NE(outcome.code, 0);
    const std::size_t at = outcome.output.find(start);
    ASSERT_NE(at, std::string::npos) << outcome.output;
    const std::string advice = outcome.output.substr(at, outcome.output.find('\n', at) - at);
    ASSERT_EQ(std::system(("PATH=" + path("programs") + ":$PATH; " + advice).c_str()), 0) << advice;
    const Outcome again = run(command);
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_THAT(again.output, Not(HasSubstr("skipped")));
  }
};

TEST_F(AdviceTest, OnAFormatThatIsNotReadHelps) {
  put_classes(2);
  put("in/bee/it's.heic", box + "ftypheic....");
  expect_advice_helps(convert(), "heif-convert");
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 2}, {"bee", 3}}));
}

/// The file's name ends with .png, but the file has another format. The converted copy must replace the file.
TEST_F(AdviceTest, OnAFormatThatIsNotReadHelpsIfTheNameIsThatOfAPng) {
  put_classes(2);
  put("in/bee/phone.png", box + "ftypheic....");
  expect_advice_helps(convert(), "heif-convert");
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 2}, {"bee", 3}}));
}

TEST_F(AdviceTest, OnAFormatThatIsNotReadHelpsIfAListNamesTheFile) {
  put_classes(1);
  put("in/bee/phone.heic", box + "ftypheic....");
  write("list.txt", "in/bee/000.jpg bee\nin/bee/phone.heic bee\nin/ant/deep/000.PNG ant\n");
  expect_advice_helps("tfrecord_convert images --input " + path("list.txt") + " --output " + path("out"),
                      "heif-convert");
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 1}, {"bee", 2}}));
}

TEST_F(AdviceTest, OnAPictureThatIsTooLargeHelps) {
  put_classes(2);
  std::string gif = picture("palette.gif");
  gif.replace(6, 4, "\x60\xEA\x60\xEA");
  put("in/bee/large.gif", gif);
  if (CARILLON_HAS_PICTURE_FORMATS == 0) return;
  expect_advice_helps(convert(), "mogrify -resize");
  EXPECT_EQ(counts(), (std::map<std::string, int>{{"ant", 2}, {"bee", 3}}));
}

/// Tests of folders that may be splits. Each folder that a test makes has one picture of each of the classes ant and
/// bee.
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
  expect_failure(convert(), ExitCode::data, question);  // one of these folders has a third class
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
    put(fmt::format("in/{}/images/0.jpg", name), picture("colour.jpg"));  // like the folders of Tiny ImageNet
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
