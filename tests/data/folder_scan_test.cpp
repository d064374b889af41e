// Which files of a folder are pictures, and which folders are its classes.
#include "src/data/convert/folder_scan.h"

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
  put("in/e.dng", picture("colour.tif"));  // the raw file of a camera starts with a preview
  put("in/f", "");
  ASSERT_EQ(::mkfifo(path("in/g").c_str(), 0600), 0);  // reading it would wait
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

/// Runs the command of a message with programs that stand in for those of ImageMagick and libheif.
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
  /// Requires that `command` fails, and succeeds after the command in its message, which starts with `start`.
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

/// The name is that of the converted copy.
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

}  // namespace
}  // namespace carillon
