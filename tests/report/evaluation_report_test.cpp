#include "src/report/evaluation_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns the confusion matrix of three classes. The last class has no samples. All samples of the middle class are
/// classified wrongly.
ConfusionMatrix counts() {
  ConfusionMatrix counts(3);
  const std::int64_t rows[3][3] = {{5, 0, 1}, {2, 0, 1}, {0, 0, 0}};
  for (std::size_t label = 0; label < 3; ++label) std::ranges::copy(rows[label], counts.row(label).begin());
  return counts;
}

EvaluationReport report() {
  return {.network = {"runs/\xff/model.ckpt-7.h5", "mnist", "moving averages", 7}, .counts = counts()};
}

TEST(EvaluationReport, IsAJsonObjectThatHoldsTheMatrixByTrueClass) {
  const std::string text = json_text(report());
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("checkpoint"), "runs/\uFFFD/model.ckpt-7.h5");
  EXPECT_EQ(json.at("model"), "mnist");
  EXPECT_EQ(json.at("global_step"), 7);
  EXPECT_EQ(json.at("values"), "moving averages");
  EXPECT_EQ(json.at("correct"), 5);
  EXPECT_EQ(json.at("total"), 9);
  EXPECT_EQ(json.at("precision"), 5.0 / 9.0);
  EXPECT_EQ(json.at("confusion").dump(), "[[5,0,1],[2,0,1],[0,0,0]]");
  ASSERT_EQ(json.at("classes").size(), 3u);
  EXPECT_EQ(json.at("classes")[0].dump(), nlohmann::json({{"class", 0},
                                                          {"support", 6},
                                                          {"predicted", 7},
                                                          {"correct", 5},
                                                          {"precision", 5.0 / 7.0},
                                                          {"recall", 5.0 / 6.0}})
                                              .dump());
  EXPECT_TRUE(json.at("classes")[1].at("precision").is_null());
  // Each row of the matrix is one line, because people also read the file.
  EXPECT_THAT(text, HasSubstr("\n    [5,0,1],\n    [2,0,1],\n    [0,0,0]\n  ]\n}\n"));
}

TEST(EvaluationReport, IsACsvTableWithALineForEachClassAndOneForAll) {
  EXPECT_EQ(csv_text(counts()),
            "class,support,predicted,correct,precision,recall,predicted_0,predicted_1,predicted_2\r\n"
            "0,6,7,5,0.7142857142857143,0.8333333333333334,5,0,1\r\n"
            "1,3,0,0,,0,2,0,1\r\n"
            "2,0,2,0,0,,0,0,0\r\n"
            "total,9,9,5,0.5555555555555556,0.5555555555555556,7,0,2\r\n");
}

TEST(EvaluationReport, NamesTheClassesIfTheNamesAreKnown) {
  EvaluationReport named = report();
  named.class_names = {"ant", "a \"bee\"", "cat, dog"};
  const auto json = nlohmann::json::parse(json_text(named));
  EXPECT_EQ(json.at("classes")[0].at("class"), 0);
  EXPECT_EQ(json.at("classes")[1].at("name"), "a \"bee\"");
  EXPECT_EQ(csv_text(counts(), named.class_names),
            "class,support,predicted,correct,precision,recall,predicted_ant,\"predicted_a \"\"bee\"\"\","
            "\"predicted_cat, dog\"\r\n"
            "ant,6,7,5,0.7142857142857143,0.8333333333333334,5,0,1\r\n"
            "\"a \"\"bee\"\"\",3,0,0,,0,2,0,1\r\n"
            "\"cat, dog\",0,2,0,0,,0,0,0\r\n"
            "total,9,9,5,0.5555555555555556,0.5555555555555556,7,0,2\r\n");
  const TemporaryDirectory directory;
  write_report(directory.path() / "a.csv", named);
  EXPECT_EQ(read_text(directory.path() / "a.csv"), csv_text(counts(), named.class_names));
}

TEST(EvaluationReport, TakesItsFormFromTheExtension) {
  const TemporaryDirectory directory;
  write_report(directory.path() / "a.json", report());
  write_report(directory.path() / "a.csv", report());
  EXPECT_EQ(read_text(directory.path() / "a.json"), json_text(report()));
  EXPECT_EQ(read_text(directory.path() / "a.csv"), csv_text(counts()));
  for (const char* const name : {"a.txt", "a", "json", ".json", "a.json.gz", "a.JSON"}) {
    const Error error = error_of([&] { check_report_place(directory.path() / name); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.what(), fmt::format("--report {}: the name of a report must end in .html, .json or .csv",
                                        (directory.path() / name).string()));
  }
  EXPECT_EQ(entry_count(directory.path()), 2u);
}

TEST(EvaluationReport, IsRefusedItsPlaceBeforeAnythingIsDone) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "directory.json");
  for (const char* const name : {"directory.json", "missing/a.json"}) {
    const Error error = error_of([&] { check_report_place(directory.path() / name); });
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("--report {}: ", (directory.path() / name).string())));
  }
}

TEST(EvaluationReport, LeavesTheOldOneUntilTheNewIsWhole) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.json";
  write_text(path, "old");
  check_report_place(path);
  EXPECT_EQ(read_text(path), "old");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(error_of([&] { write_report(path, report()); }).code(), ExitCode::io);
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(entry_count(directory.path()), 1u);
}

using ::testing::HasSubstr;

TaskReport task_report() {
  return {.network = {"runs/a/model.ckpt-3.h5", "resnet9", "variables", 3},
          .row_name = "label",
          .records = 7,
          .scores = {{.name = "mean_average_precision", .value = 0.75}, {.name = "macro_f1", .value = NAN}},
          .table = {.columns = {"positives", "f1"}, .rows = {{4.0, 0.5}, {0.0, NAN}}},
          .names = {"a, \"b\"", "\xff"}};
}

TEST(TaskReport, JsonHasScoresAndARowForEachOutput) {
  const auto json = nlohmann::json::parse(json_text(task_report()));
  EXPECT_EQ(json.at("checkpoint"), "runs/a/model.ckpt-3.h5");
  EXPECT_EQ(json.at("global_step"), 3);
  EXPECT_EQ(json.at("records"), 7);
  EXPECT_EQ(json.at("mean_average_precision"), 0.75);
  EXPECT_TRUE(json.at("macro_f1").is_null());
  ASSERT_EQ(json.at("labels").size(), 2u);
  EXPECT_EQ(json.at("labels")[0], nlohmann::json::parse(R"({"label":0,"name":"a, \"b\"","positives":4,"f1":0.5})"));
  EXPECT_TRUE(json.at("labels")[1].at("f1").is_null());
}

TEST(TaskReport, CsvHasALineForEachOutputAndQuotesNames) {
  EXPECT_EQ(csv_text(task_report()), "label,positives,f1\r\n\"a, \"\"b\"\"\",4,0.5\r\n\\xff,0,\r\n");
}

TEST(TaskReport, WithoutNamesRowsHaveNumbers) {
  TaskReport unnamed = task_report();
  unnamed.names.clear();
  EXPECT_THAT(csv_text(unnamed), HasSubstr("\r\n1,0,"));
}

TEST(TaskReport, AnEmptyTableIsAnEmptyList) {
  TaskReport empty = task_report();
  empty.table = {};
  EXPECT_TRUE(nlohmann::json::parse(json_text(empty)).at("labels").empty());
}

TEST(TaskReport, TheExtensionChoosesTheForm) {
  const TemporaryDirectory directory;
  write_report(directory.path() / "a.json", task_report());
  write_report(directory.path() / "a.csv", task_report());
  EXPECT_EQ(read_text(directory.path() / "a.json"), json_text(task_report()));
  EXPECT_EQ(read_text(directory.path() / "a.csv"), csv_text(task_report()));
}

}  // namespace
}  // namespace carillon::testing
