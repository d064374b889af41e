// Tests that run `tfrecord_convert images` as a user does.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "carillon/images/decode.h"
#include "src/data/convert/picture_list.h"
#include "src/data/decode/dataset_info.h"
#include "tests/data/picture_programs.h"

namespace carillon {
namespace {

using testing::HasSubstr;

TEST_F(PictureProgramsTest, FoldersBecomeImagenetsRecords) {
  put_classes(3);
  put("in/bee/notes.txt", "text");
  put("in/bee/.hidden.jpg", "text");
  const Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("ignored 1 file in " + path("in") + ": no picture, for example bee/notes.txt\n"));
  EXPECT_THAT(outcome.output, HasSubstr("2 classes"));
  const std::vector<Stored> all = records("train-00000-of-00001.tfrecord");
  ASSERT_EQ(all.size(), 6u);
  for (const Stored& stored : all) {
    const bool is_ant = stored.text == "ant";
    EXPECT_EQ(stored.label, is_ant ? 1 : 2);
    EXPECT_EQ(stored.file, picture(is_ant ? "colour.png" : "colour.jpg"));
    EXPECT_EQ(stored.format, is_ant ? "PNG" : "JPEG");
    EXPECT_EQ(stored.height, 33);
    EXPECT_EQ(stored.width, 45);
  }
  EXPECT_EQ(read_dataset_info(path("out"))->classes, (std::vector<std::string>{"ant", "bee"}));
}

TEST_F(PictureProgramsTest, TheShareForValidationIsOfEachClassAndDrawnBySeed) {
  put_classes(20);
  const auto validation = [&](const std::string& more) {
    std::filesystem::remove_all(path("out"));
    EXPECT_EQ(run(convert("--validation-share 0.25 --shards 2 " + more)).code, 0);
    std::map<std::string, int> count;
    std::set<std::string> names;  // a set, because the seed also changes the order of the records
    for (const char* shard : {"validation-00000-of-00002.tfrecord", "validation-00001-of-00002.tfrecord"}) {
      for (const Stored& stored : records(shard)) {
        ++count[stored.text];
        names.insert(stored.text + stored.name);
      }
    }
    EXPECT_EQ(count["ant"], 5);
    EXPECT_EQ(count["bee"], 5);
    return names;
  };
  const std::set<std::string> first = validation("");
  EXPECT_EQ(first.size(), 10u);
  EXPECT_EQ(validation("--seed 1"), first);
  EXPECT_NE(validation("--seed 2"), first);
}

TEST_F(PictureProgramsTest, PicturesAreReducedWhereAsked) {
  put_classes(1);
  put("in/cmyk/0.jpg", picture("cmyk.jpg"));
  EXPECT_EQ(run(convert("--resize-shorter 16 --quality 80")).code, 0);
  for (const Stored& stored : records("train-00000-of-00001.tfrecord")) {
    EXPECT_EQ(stored.height, 16);
    EXPECT_EQ(stored.width, 21);
    EXPECT_EQ(stored.format, "JPEG");
  }
}

TEST_F(PictureProgramsTest, CmykBecomesRgb) {
  put("in/a/0.jpg", picture("cmyk.jpg"));
  put("in/b/0.jpg", picture("cmyk.jpg"));
  EXPECT_EQ(run(convert()).code, 0);
  const Stored stored = records("train-00000-of-00001.tfrecord").at(0);
  EXPECT_NE(stored.file, picture("cmyk.jpg"));
  EXPECT_EQ(stored.height, 33);
}

TEST_F(PictureProgramsTest, ADamagedPictureEndsItOrIsSkipped) {
  put_classes(3);
  put("in/ant/bad.jpg", picture("colour.jpg").substr(0, 800));
  put("none/a/bad.jpg", picture("colour.jpg").substr(0, 800));
  put("none/b/bad.jpg", picture("colour.jpg").substr(0, 800));
  const Outcome none =
      run("tfrecord_convert images --skip-damaged --input " + path("none") + " --output " + path("empty"));
  EXPECT_EQ(none.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(none.output, HasSubstr("every picture of the split train is damaged (2 pictures)"));
  EXPECT_FALSE(std::filesystem::exists(path("empty/records.json")));
  expect_failure(convert(), ExitCode::data, "in/ant/bad.jpg: is damaged");
  EXPECT_FALSE(std::filesystem::exists(path("out/train-00000-of-00001.tfrecord")));
  EXPECT_FALSE(std::filesystem::exists(path("out/records.json")));
  const Outcome outcome = run(convert("--skip-damaged"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("skipped: "));
  EXPECT_THAT(outcome.output, HasSubstr("skipped 1 damaged picture"));
  EXPECT_EQ(records("train-00000-of-00001.tfrecord").size(), 6u);
}

TEST_F(PictureProgramsTest, AWarningThatCannotBePrintedDoesNotEndIt) {
  put_classes(3);
  put("in/ant/bad.jpg", picture("colour.jpg").substr(0, 800));
  EXPECT_EQ(run_program(convert("--skip-damaged 2>&-)"), "(").code, 0);
  EXPECT_EQ(records("train-00000-of-00001.tfrecord").size(), 6u);
}

TEST_F(PictureProgramsTest, ASplitOfItsOwnHasTheClassesOfTheFirst) {
  put_classes(2);
  EXPECT_EQ(run(convert()).code, 0);
  std::filesystem::remove_all(path("in/ant"));
  EXPECT_EQ(run(convert("--split validation")).code, 0);
  EXPECT_EQ(records("validation-00000-of-00001.tfrecord").at(0).label, 2);
  EXPECT_EQ(read_dataset_info(path("out"))->classes.size(), 2u);
  put("in/cat/0.jpg", picture("colour.jpg"));
  expect_failure(convert("--split validation --overwrite"), ExitCode::data,
                 "the class 'cat' is not among the 2 of records.json");
}

TEST_F(PictureProgramsTest, ANamedSplitThatExistsIsReplacedOnlyOnRequest) {
  put_classes(10);
  EXPECT_EQ(run(convert("--validation-share 0.2")).code, 0);
  const std::string file = path("out/validation-00000-of-00001.tfrecord"), before = read_bytes(file);
  expect_failure(convert("--split validation"), ExitCode::usage, "the split validation exists");
  expect_failure(convert("--split validation"), ExitCode::usage, "--overwrite");
  EXPECT_EQ(read_bytes(file), before);
  EXPECT_EQ(run(convert("--split validation --overwrite")).code, 0);
  EXPECT_EQ(records("validation-00000-of-00001.tfrecord").size(), 20u);
  EXPECT_EQ(run(convert("--split extra")).code, 0);
  // A program that converts one split can also create another split.
  const std::string replaced = read_bytes(file);
  std::filesystem::remove(path("out/train-00000-of-00001.tfrecord"));
  expect_failure(convert("--split train --validation-share 0.2"), ExitCode::usage, "the split validation exists");
  EXPECT_EQ(read_bytes(file), replaced);
}

TEST_F(PictureProgramsTest, ClassesWithFewPicturesAreNamed) {
  put_classes(9);
  for (int i = 0; i < 10; ++i) put(fmt::format("in/cow/{}.jpg", i), picture("colour.jpg"));
  EXPECT_THAT(run(convert()).output,
              HasSubstr("tfrecord_convert: few pictures to train on, fewer than 10 per class: ant (9), bee (9)\n"));
  for (int i = 0; i < 12; ++i) put(fmt::format("many/{:02}/0.jpg", i), picture("colour.jpg"));
  EXPECT_THAT(run("tfrecord_convert images --input " + path("many") + " --output " + path("twelve")).output,
              HasSubstr("07 (1), 08 (1), 09 (1) and 2 more\n"));
}

TEST_F(PictureProgramsTest, OrientedPicturesAreStoredUnchangedWithTheSizeThatIsShown) {
  put("in/a/0.jpg", picture("oriented_6.jpg"));
  put("in/b/0.jpg", picture("oriented_6.jpg"));
  EXPECT_EQ(run(convert()).code, 0);
  const Stored stored = records("train-00000-of-00001.tfrecord").at(0);
  EXPECT_EQ(stored.file, picture("oriented_6.jpg"));
  EXPECT_EQ(stored.height, 21);
  EXPECT_EQ(stored.width, 13);
}

TEST_F(PictureProgramsTest, PicturesInOtherFormatsAreStoredAsPng) {
  put("in/a/0.tif", picture("colour.tif"));
  put("in/b/0.jpg", picture("palette.gif"));  // a GIF file whose name ends with .jpg
  if (CARILLON_HAS_PICTURE_FORMATS == 0) {
    expect_failure(convert(), ExitCode::data, "convert it first: mogrify -format png");
    return;
  }
  EXPECT_EQ(run(convert()).code, 0);
  for (const Stored& stored : records("train-00000-of-00001.tfrecord")) {
    EXPECT_EQ(stored.format, "PNG");
    EXPECT_TRUE(stored.file.starts_with("\x89PNG"));
    EXPECT_EQ(stored.height, 13);
  }
  put("in/b/1.heic", std::string(4, '\0') + "ftypheic....");
  expect_failure(convert(), ExitCode::data, "in/b/1.heic: is a HEIF file: this format is not supported; convert it");
}

TEST_F(PictureProgramsTest, ABackgroundIsStoredInRecordsAndInTheirDescription) {
  put("in/a/0.png", picture("transparent.png"));
  put("in/b/0.png", picture("colour.png"));
  EXPECT_EQ(run(convert("--background black")).code, 0);
  for (const Stored& stored : records("train-00000-of-00001.tfrecord")) {
    if (stored.text == "b") {
      EXPECT_EQ(stored.file, picture("colour.png"));
      continue;
    }
    const std::span file(reinterpret_cast<const std::uint8_t*>(stored.file.data()), stored.file.size());
    EXPECT_EQ(stored.format, "PNG");
    EXPECT_FALSE(picture_info(file).has_transparency);
    DecodedPart whole;
    decode_whole(file, whole);
    EXPECT_EQ(whole.pixels[0], 0);  // this pixel is transparent in the file
  }
  EXPECT_EQ(read_dataset_info(path("out"))->background, (Colour{0, 0, 0}));
  EXPECT_EQ(run(convert("--split validation")).code, 0);  // uses the background of the records that exist
  EXPECT_EQ(read_dataset_info(path("out"))->background, (Colour{0, 0, 0}));
  expect_failure(convert("--split test --background '#ffffff'"), ExitCode::usage, "have the background #000000");
  expect_failure(convert("--background blue"), ExitCode::usage, "--background 'blue': must be white, black or #rrggbb");
}

TEST_F(PictureProgramsTest, TheHistogramHasClassNames) {
  put_classes(3);
  EXPECT_EQ(run(convert()).code, 0);
  const std::string file = path("out/train-00000-of-00001.tfrecord");
  const std::string bar(40, '#');
  EXPECT_THAT(run("tfrecord_inspect " + file).output, HasSubstr("       class    records\n         ant          3  " +
                                                                bar + "\n         bee          3  " + bar + "\n"));
  std::filesystem::remove(path("out/records.json"));
  EXPECT_THAT(run("tfrecord_inspect " + file).output, HasSubstr("       label    records\n           1          3"));
}

TEST_F(PictureProgramsTest, SplitsOfAnEarlierConversionAreNotLeftBesideOthers) {
  put_classes(10);
  EXPECT_EQ(run(convert("--validation-share 0.2")).code, 0);
  expect_failure(convert(), ExitCode::usage, "belongs to another split");
  const std::string before = read_bytes(path("out/train-00000-of-00001.tfrecord"));
  put("in/bee/bad.jpg", "text");
  expect_failure(convert("--validation-share 0.2 --seed 7"), ExitCode::data, "in/bee/bad.jpg");
  EXPECT_EQ(read_bytes(path("out/train-00000-of-00001.tfrecord")), before);
}

/// A validation share of 1/50 would select no picture from a single class of 20 pictures. But all small classes
/// together must reach the share.
TEST_F(PictureProgramsTest, SmallClassesGiveTheirShareTogether) {
  std::vector<ListedPicture> pictures;
  for (std::size_t i = 0; i < 2000; ++i) pictures.push_back({.path = "", .class_index = i / 20});
  EXPECT_EQ(share_out(pictures, 100, 0.02, 1).taken.size(), 40u);
  put_classes(2);
  expect_failure(convert("--validation-share 0.01"), ExitCode::usage, "selects none of the 4 pictures");
}

TEST_F(PictureProgramsTest, AClassKeepsAPictureToTrainOn) {
  std::vector<ListedPicture> pictures;
  for (const std::size_t class_index : {0u, 1u, 2u, 3u, 3u, 3u, 3u, 3u, 3u, 3u, 3u}) {
    pictures.push_back({.path = "", .class_index = class_index});
  }
  const SharedPictures shared = share_out(pictures, 4, 0.5, 1);
  std::map<std::size_t, int> kept;
  for (const ListedPicture& picture : shared.kept) ++kept[picture.class_index];
  // The first three classes have one picture each, which must remain in the training set. The last class also provides
  // the share of these classes.
  EXPECT_EQ(kept, (std::map<std::size_t, int>{{0, 1}, {1, 1}, {2, 1}, {3, 2}}));
  EXPECT_EQ(shared.taken.size(), 6u);
}

TEST_F(PictureProgramsTest, LinksThatLeadBackArePassedOver) {
  put_classes(2);
  std::filesystem::create_directory_symlink(".", path("in/bee/loop"));
  std::filesystem::create_directory_symlink("..", path("in/ant/up"));
  EXPECT_EQ(list_pictures(path("in")).pictures.size(), 4u);
}

/// Nine folders contain links to each other, so there are 986,409 paths without a loop. The program must remember which
/// folders it has read. Otherwise it would follow all these paths.
TEST_F(PictureProgramsTest, EachRealFolderIsReadOncePerClass) {
  constexpr int count = 9;
  const auto folder = [&](int i) { return path(fmt::format("in/{}", i)); };
  for (int i = 0; i < count; ++i) {
    std::filesystem::create_directories(folder(i));
    write(fmt::format("in/{}/picture.png", i), "");
    for (int other = 0; other < count; ++other) {
      const std::string link = fmt::format("{}/to-{}", folder(i), other);
      std::filesystem::create_directory_symlink(fmt::format("../{}", other), link);
    }
  }
  const PictureList list = list_pictures(path("in"));
  std::map<std::size_t, int> found;
  for (const ListedPicture& picture : list.pictures) ++found[picture.class_index];
  EXPECT_EQ(found.size(), 9u);
  for (const auto& [class_index, pictures] : found) EXPECT_EQ(pictures, count) << "class " << class_index;
  EXPECT_EQ(scan_folder(path("in")).pictures.size(), 9u);
}

TEST_F(PictureProgramsTest, VerifyingDecodesPictures) {
  proto::Example example;
  (*example.mutable_features()->mutable_feature())["image/encoded"].mutable_bytes_list()->add_value(
      picture("colour.jpg").substr(0, 900));
  std::string record;
  append_record(record, example.SerializeAsString());
  write("cut", record);
  EXPECT_EQ(run("tfrecord_inspect " + path("cut")).code, 0);
  expect_failure("tfrecord_inspect --verify " + path("cut"), ExitCode::data,
                 "cut: record 0 at byte 0: feature 'image/encoded' is damaged");
}

TEST_F(PictureProgramsTest, AListNamesPicturesAndClasses) {
  put_classes(2);
  write("in.txt", "# pictures\nin/bee/000.jpg insect\r\n\nin/bee/001.jpg\tbig insect\n");
  const PictureList list = list_pictures(path("in.txt"));
  EXPECT_EQ(list.classes, (std::vector<std::string>{"big insect", "insect"}));
  ASSERT_EQ(list.pictures.size(), 2u);
  EXPECT_EQ(list.pictures[0].class_index, 1u);
  EXPECT_EQ(list.pictures[0].path, directory_ / "in/bee/000.jpg");
  for (const char* const text : {"\xEF\xBB\xBFin/bee/000.jpg a\n", "in/bee/000.jpg a\rin/bee/001.jpg b\r"}) {
    write("in.txt", text);
    EXPECT_EQ(list_pictures(path("in.txt")).pictures.front().path, directory_ / "in/bee/000.jpg");
    EXPECT_EQ(list_pictures(path("in.txt")).classes.front(), "a");
  }
  write("in.txt", "in/bee/000.jpg\n");
  const Failure failure = failure_of([&] { list_pictures(path("in.txt")); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("in.txt: line 1"));
}

TEST_F(PictureProgramsTest, RecordsAreShownOnASheet) {
  put_classes(3);
  EXPECT_EQ(run(convert()).code, 0);
  const std::string sheet = path("sheet.png"), records = path("out/train-00000-of-00001.tfrecord");
  EXPECT_EQ(run("tfrecord_inspect --show 4 --output " + sheet + " " + records).code, 0);
  DecodedPart whole;
  const std::string png = read_bytes(sheet);
  decode_whole({reinterpret_cast<const std::uint8_t*>(png.data()), png.size()}, whole);
  EXPECT_EQ(whole.width, 2 * 118 + 6);
  EXPECT_EQ(whole.height, 2 * 134 + 6);
  // The picture of the first record, 45 x 33 pixels, is in the middle of the first cell.
  DecodedPart picture;
  const std::string file = this->records("train-00000-of-00001.tfrecord").at(0).file;
  decode_whole({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, picture);
  for (const auto& [y, x] : {std::pair{0, 0}, {32, 44}, {10, 30}}) {
    const std::uint8_t* shown = whole.row_at(6 + 39 + y) + (6 + 33 + x) * 4;
    EXPECT_TRUE(std::equal(shown, shown + 3, picture.row_at(y) + x * 4)) << y << " " << x;
  }
  EXPECT_EQ(run("tfrecord_inspect --show 500 --output " + sheet + " " + sample_path("tensorflow.tfrecord")).code, 0);
  EXPECT_EQ(run("tfrecord_inspect --show 5 --output " + sheet + " " + sample_path("cifar10.tfrecord")).code, 0);
  expect_failure("tfrecord_inspect --show 0 --output " + sheet + " " + records, ExitCode::usage, "--show 0");
  expect_failure("tfrecord_inspect --show 5 " + records, ExitCode::usage, "--output");
  expect_failure("tfrecord_inspect --show 5 --verify --output " + sheet + " " + records, ExitCode::usage,
                 "remove --verify");
}

TEST_F(PictureProgramsTest, AFolderThatIsNotAPictureSetIsRejected) {
  expect_failure(convert(), ExitCode::no_input, "in: no such folder");
  std::filesystem::create_directories(path("in"));
  expect_failure(convert(), ExitCode::no_input, "contains no folder of pictures");
  std::filesystem::create_directories(path("in/empty"));
  expect_failure(convert(), ExitCode::data, "in/empty: contains no picture");
  put("in/empty/0.jpg", "");
  expect_failure(convert(), ExitCode::data, "contains only the class 'empty', and a classifier requires at least two");
  put("in/full/0.jpg", picture("colour.jpg"));
  expect_failure(convert(), ExitCode::data, "0.jpg: is empty");
  put("in/empty/0.jpg", "text");
  expect_failure(convert(), ExitCode::data, "neither a JPEG nor a PNG");
  expect_failure(convert("--validation-share 1"), ExitCode::usage, "--validation-share");
  expect_failure(convert("--quality 0"), ExitCode::usage, "--quality");
  expect_failure(convert("--split a/b"), ExitCode::usage, "--split");
  expect_failure("tfrecord_convert mnist --quality 3 --input a --output b", ExitCode::usage,
                 "--quality requires the format");
}

}  // namespace
}  // namespace carillon
