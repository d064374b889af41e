#include "src/report/prediction_files.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

RecordOrigin origin_of(std::size_t i) { return {"data/a,b-0", i + 7, i == 0 ? "say \"x\".jpg" : ""}; }

std::string written(const PredictionTable& table) {
  const TemporaryDirectory directory;
  write_predictions(directory.path() / "p.csv", table, [](std::size_t i) {
    return RecordOrigin{.file = "a,b", .number = 5 + i, .picture = i == 0 ? "x.jpg" : ""};
  });
  return read_text(directory.path() / "p.csv");
}

TEST(PredictionsFile, HasALinePerRecordWithItsMostProbableClasses) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.csv";
  Predictions predictions{.class_count = 2};
  predictions.samples = {{.label = 1, .classes = {0, 1}, .probabilities = {0.75, 0.25}},
                         {.label = 0, .classes = {0, 1}, .probabilities = {1.0, 1.23456789e-10}}};
  const std::vector<std::string> names{"ant", "bee, red"};
  write_predictions(path, class_table(predictions, names), origin_of);
  EXPECT_EQ(read_text(path),
            "file,record,picture,true,predicted,class_1,probability_1,class_2,probability_2\r\n"
            "\"data/a,b-0\",7,\"say \"\"x\"\".jpg\",\"bee, red\",ant,ant,0.75,\"bee, red\",0.25\r\n"
            "\"data/a,b-0\",8,,ant,ant,ant,1,\"bee, red\",1.23457e-10\r\n");
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

TEST(PredictionsFile, IsUtf8EvenIfFileNamesAreNot) {
  const TemporaryDirectory directory;
  Predictions predictions{.class_count = 2};
  predictions.samples = {{.label = 1, .classes = {0, 1}, .probabilities = {0.75, 0.25}}};
  write_predictions(directory.path() / "a.csv", class_table(predictions, {}),
                    [](std::size_t) { return RecordOrigin{.file = "t\xe9", .number = 0, .picture = "caf\xe9.jpg"}; });
  EXPECT_THAT(read_text(directory.path() / "a.csv"), HasSubstr("\r\nt\\xe9,0,caf\\xe9.jpg,1,0,"));
}

TEST(PredictionsFile, HasFiveClassesOfMany) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.csv";
  Predictions predictions{.class_count = 100};
  predictions.samples = {{.label = 9, .classes = {9, 8, 7, 6, 5}, .probabilities = {0.5, 0.2, 0.1, 0.05, 0.01}}};
  write_predictions(path, class_table(predictions, {}), origin_of);
  EXPECT_THAT(read_text(path), HasSubstr(",9,9,9,0.5,8,0.2,7,0.1,6,0.05,5,0.01\r\n"));
}

TEST(PredictionsFile, LabelsAreSeparatedBySemicolons) {
  StoredSamples samples(3, 3);
  const std::vector<float> logits{1.0f, 0.0f, 2.0f, -1.0f, -1.0f, -1.0f};
  const std::vector<std::uint8_t> targets{1, 1, 0, 0, 0, 0};
  samples.add(logits, std::as_bytes(std::span(targets)));
  const std::vector<std::string> names{"boat", "sea", "tree"};
  EXPECT_EQ(written(label_table(samples, names)),
            "file,record,picture,true,predicted,probability boat,probability sea,probability tree\r\n"
            "\"a,b\",5,x.jpg,boat;sea,boat;sea;tree,0.731059,0.5,0.880797\r\n"
            "\"a,b\",6,,,,0.268941,0.268941,0.268941\r\n");
}

TEST(PredictionsFile, NumbersHaveTheirUnit) {
  RegressionMetric metric({{.mean = 10.0, .deviation = 2.0}, {}});
  const std::vector<float> outputs{0.5f, 3.0f}, targets{-1.0f, 2.5f};
  metric.add(outputs, std::as_bytes(std::span(targets)));
  const std::vector<std::string> names{"age"};
  EXPECT_EQ(written(number_table(metric, names)),
            "file,record,picture,true age,predicted age,true 1,predicted 1\r\n\"a,b\",5,x.jpg,8,11,2.5,3\r\n");
}

TEST(PredictionsFile, NumbersAreThoseOfTheListNotOfTheirRounding) {
  const std::vector<NumberScale> scales{
      {.mean = 2.49, .deviation = 2.056}, {.mean = 1.7e9, .deviation = 1e5}, {.mean = 3e-6, .deviation = 2e-6}};
  const std::vector<double> numbers{5.0, 1700123456.0, 1.5e-6, 0.0, 1699900000.0, -2.25e-6};
  RegressionMetric metric(scales);
  std::vector<float> targets;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    targets.push_back(static_cast<float>(scales[i % 3].standardised(numbers[i])));
  metric.add(targets, std::as_bytes(std::span(targets)));
  const PredictionTable table = number_table(metric, {});
  EXPECT_EQ(table.cells(0)[0], "5");
  EXPECT_EQ(table.cells(0)[2], "1700123456");
  EXPECT_EQ(table.cells(0)[4], "0.0000015");
  EXPECT_EQ(table.cells(1)[0], "0");
  EXPECT_EQ(table.cells(1)[2], "1699900000");
  EXPECT_EQ(table.cells(1)[4], "-0.00000225");
}

TEST(PredictionsFile, LeavesTheOldOneUntilTheNewIsWhole) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.csv";
  write_text(path, "old");
  check_predictions_place(path);
  {
    const FileSizeLimit limit(10);
    const Predictions none{.class_count = 2};
    EXPECT_EQ(error_of([&] { write_predictions(path, class_table(none, {}), origin_of); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

TEST(PredictionsFile, RefusesOtherPlaces) {
  const Error usage = error_of([] { check_predictions_place("a.json"); });
  EXPECT_EQ(usage.code(), ExitCode::usage);
  EXPECT_STREQ(usage.what(), "--predictions a.json: the name of the file must end in .csv");
  const Error io = error_of([] { check_predictions_place("missing/a.csv"); });
  EXPECT_EQ(io.code(), ExitCode::io);
  EXPECT_THAT(io.what(), StartsWith("--predictions missing/a.csv: "));
}

}  // namespace
}  // namespace carillon::testing
