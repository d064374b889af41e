#include "src/report/task_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

TaskReport report() {
  return {.network = {"runs/a/model.ckpt-3.h5", "resnet9", "variables", 3},
          .row_name = "label",
          .records = 7,
          .scores = {{.name = "mean_average_precision", .value = 0.75}, {.name = "macro_f1", .value = NAN}},
          .table = {.columns = {"positives", "f1"}, .rows = {{4.0, 0.5}, {0.0, NAN}}},
          .names = {"a, \"b\"", "\xff"}};
}

TEST(TaskReport, JsonHasScoresAndARowForEachOutput) {
  const auto json = nlohmann::json::parse(json_text(report()));
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
  EXPECT_EQ(csv_text(report()), "label,positives,f1\r\n\"a, \"\"b\"\"\",4,0.5\r\n\xff,0,\r\n");
}

TEST(TaskReport, WithoutNamesRowsHaveNumbers) {
  TaskReport unnamed = report();
  unnamed.names.clear();
  EXPECT_THAT(csv_text(unnamed), HasSubstr("\r\n1,0,"));
}

TEST(TaskReport, AnEmptyTableIsAnEmptyList) {
  TaskReport empty = report();
  empty.table = {};
  EXPECT_TRUE(nlohmann::json::parse(json_text(empty)).at("labels").empty());
}

TEST(TaskReport, TheExtensionChoosesTheForm) {
  const TemporaryDirectory directory;
  write_report(directory.path() / "a.json", report());
  write_report(directory.path() / "a.csv", report());
  EXPECT_EQ(read_text(directory.path() / "a.json"), json_text(report()));
  EXPECT_EQ(read_text(directory.path() / "a.csv"), csv_text(report()));
}

}  // namespace
}  // namespace carillon::testing
