// Tests of evaluations and predictions. The tests run image_eval and carillon_predict as a user does.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "src/checkpoint/array_files.h"
#include "src/images/picture.h"
#include "tests/cli/image_programs.h"
#include "tests/cli/predictions.h"
#include "tests/support/markup.h"

namespace carillon {
namespace {

using testing::HasSubstr;

TEST_F(ImageProgramsTest, ReportsNameTheClasses) {
  expect_done(train("named", "--max-steps 0"));
  for (const char* report : {"report.csv", "report.json"}) {
    expect_done("image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("named") + " --report " +
                at(report));
  }
  const std::string csv = read_bytes(at("report.csv"));
  EXPECT_THAT(csv, HasSubstr(",predicted_blue,predicted_red,loss\r\nblue,4,"));
  EXPECT_EQ(nlohmann::json::parse(read_bytes(at("report.json"))).at("classes")[1].at("name"), "red");
}

TEST_F(ImageProgramsTest, WriteThePredictionsOfPicturesWithTheirNames) {
  expect_done(train("predicted", "--max-steps 30"));
  const std::string evaluate = "image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("predicted");
  expect_done(evaluate + " --report " + at("page.html") + " " + at("two.csv") + " --predictions " +
              at("predictions.csv") + " --mistakes " + at("none.png"));
  std::istringstream lines(read_bytes(at("predictions.csv")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "file,record,picture,true,predicted,class_1,probability_1,class_2,probability_2\r");
  const std::string file = at("set/validation-00000-of-00001.tfrecord");
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, testing::MatchesRegex(
                          file + "," + std::to_string(count) +
                          ",(blue|red)/[0-3][0-9].jpg,(blue,blue,blue|red,red,red),[01][.0-9]*,(red|blue),.*"));
    const bool is_blue = line.find(",blue,blue,") != line.npos;
    const std::string picture = line.substr(line.find(".jpg") - 2, 2);
    EXPECT_EQ(std::stoi(picture) % 2 == 0, is_blue) << line;
  }
  EXPECT_EQ(count, 8);
  EXPECT_THAT(read_bytes(at("page.html")), HasSubstr("There are no mistakes."));
  EXPECT_THAT(read_bytes(at("page.html")), HasSubstr("<i>true</i> <bdi>red</bdi>"));
  EXPECT_THAT(read_bytes(at("two.csv")), HasSubstr("\r\nblue,4,4,4,1,1,4,0,"));
  EXPECT_THAT(read_bytes(at("none.png")), testing::StartsWith("\x89PNG"));
}

TEST_F(ImageProgramsTest, PagesEscapeTheNamesOfClasses) {
  const std::string name = "<b>&\"' x";
  fs::create_directories(root_ / "odd" / name);
  fs::create_directories(root_ / "odd/plain");
  for (const char* const picture : {"blue/00.jpg", "red/01.jpg"}) {
    fs::copy_file(root_ / "in" / picture, root_ / "odd" / (picture[0] == 'b' ? name : "plain") / "1.jpg");
  }
  expect_done("tfrecord_convert images --input " + at("odd") + " --output " + at("odd_set"));
  expect_done("image_train --model resnet9 --image-size 16 --batch-size 2 --max-steps 0 --data '" +
              at("odd_set/train-*") + "' --train-dir " + at("odd_run"));
  expect_done("image_eval --data '" + at("odd_set/train-*") + "' --checkpoint " + at("odd_run") + " --report " +
              at("odd.html"));
  const Markup page(read_bytes(at("odd.html")));
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, HasSubstr("true " + name));
}

/// The conversion and carillon_predict must show a picture in the same way: on the background that the checkpoint
/// stores, and rotated as its EXIF block says.
TEST_F(ImageProgramsTest, PredictionsSeePicturesAsTheConversionDoes) {
  const auto sample = [](const std::string& name) { return sample_path("../pictures/" + name); };
  for (const char* name : {"a", "b"}) {
    fs::create_directories(root_ / "clear" / name);
    fs::copy(sample("transparent.png"), root_ / "clear" / name);
  }
  expect_done("tfrecord_convert images --input " + at("clear") + " --output " + at("on_blue") +
              " --background '#0000ff'");
  expect_done("image_train --model resnet9 --image-size 16 --max-steps 0 --data '" + at("on_blue/train-*") +
              "' --train-dir " + at("blue"));
  fs::create_directories(root_ / "shown");
  fs::copy(sample(CARILLON_HAS_PICTURE_FORMATS != 0 ? "colour.tif" : "oriented_1.jpg"), root_ / "shown/2.tif");
  fs::copy(sample("oriented_6.jpg"), root_ / "shown/3.jpg");
  fs::copy(sample("oriented_1.jpg"), root_ / "shown/4.jpg");
  fs::copy(sample("transparent.png"), root_ / "shown/1.jpg");  // a PNG file whose name ends with .jpg
  expect_done("carillon_predict --checkpoint " + at("blue") + " --images " + at("shown.npz") + " " + at("shown"));
  const NamedArray seen = read_npz(at("shown.npz"), 1 << 20).at(0);
  ASSERT_EQ(seen.shape, (std::vector<std::int64_t>{4, 3, 16, 16}));
  const auto value = [&](std::size_t picture, std::size_t channel, std::size_t row, std::size_t column) {
    return seen.values[((picture * 3 + channel) * 16 + row) * 16 + column];
  };
  EXPECT_LT(value(0, 0, 0, 0), 60);  // a nearly transparent pixel, so the blue background shows
  EXPECT_GT(value(0, 2, 0, 0), 200);
  for (const std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{15}}) {
    EXPECT_NEAR(value(1, 0, 7, i), value(3, 0, 7, i), 12);  // one picture as TIFF and as JPEG
    EXPECT_NEAR(value(2, 0, i, 8), value(3, 0, 7, i), 2);   // picture 2 is stored rotated by 90 degrees
  }
  expect_failure("carillon_predict --checkpoint " + at("blue") + " " + at("shown.npz"), ExitCode::data,
                 "neither a JPEG nor a PNG");
}

TEST_F(ImageProgramsTest, SayThatTheirOutputCannotBeWritten) {
  expect_done(train("full", "--max-steps 0"));
  const std::string records = at("set/validation-00000-of-00001.tfrecord");
  const auto in_parentheses = [](const std::string& command) { return run(command + ")", "("); };
  for (const std::string& command :
       {"carillon_predict --json --checkpoint " + at("full") + " " + at("in/red"),
        "image_eval --data " + records + " --checkpoint " + at("full"), "tfrecord_inspect " + records}) {
    expect_one_line(in_parentheses(command + " > /dev/full"), ExitCode::io, "No space left on device");
  }
}

TEST_F(ImageProgramsTest, PredictTheOthersWhereAPictureIsDamaged) {
  expect_done(train("some", "--max-steps 1"));
  std::ofstream(root_ / "text.jpg") << "text";
  const std::string good = at("in/red/01.jpg"), predict = "carillon_predict --checkpoint " + at("some") + " ";
  const Outcome outcome = run(predict + good + " " + at("text.jpg") + " " + at("absent.jpg"));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr("text.jpg: is neither a JPEG nor a PNG file"));
  EXPECT_THAT(outcome.output, HasSubstr("absent.jpg"));
  EXPECT_THAT(outcome.output, HasSubstr(good + "  "));
  expect_failure(predict, ExitCode::usage, "no pictures");
  expect_failure("carillon_predict " + good, ExitCode::usage, "--checkpoint");
  expect_failure("carillon_predict --checkpoint " + at("absent") + " " + good, ExitCode::no_input, "absent");
}

}  // namespace
}  // namespace carillon
