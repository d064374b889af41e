#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "carillon/data/record.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// Runs tests/cli/own_task.cpp. The target of each record is a linear function of its pixels, so that a linear network
/// can learn it.
class OwnTask : public ProgramFixture {
 protected:
  void SetUp() override {
    ProgramFixture::SetUp();
    write_records("train-0", 40);
    write_records("test-0", 10);
  }

  void write_records(const std::string& name, int count) {
    std::string records;
    for (int i = 0; i < count; ++i) {
      std::string record(16, static_cast<char>(i * 3));
      const float number = static_cast<float>(i * 3) / 64.0f;
      record.append(reinterpret_cast<const char*>(&number), sizeof number);
      append_record(records, record);
    }
    std::ofstream(path(name), std::ios::binary) << records;
  }

  Outcome train(const std::string& more) {
    return run("own_task train --data " + path("train-*") + " --train-dir " + path("run") + " " + more,
               "mpirun --allow-run-as-root --oversubscribe -np 2 ");
  }
  Outcome evaluate(const std::string& more = "") {
    return run("own_task eval --data " + path("test-*") + " --checkpoint " + path("run") + " --raw-weights " + more);
  }
};

TEST_F(OwnTask, IsTrainedAndEvaluatedByItsProgram) {
  const Outcome trained = train("--eval-data " + path("test-*") + " --moving-average-decay 0");
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("mean absolute error = "));

  std::ifstream metrics(path("run/metrics.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(metrics, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_GE(lines.size(), 2u);
  EXPECT_TRUE(lines.front().contains("mean_squared_error")) << lines.front();
  const double error = lines.back().at("eval_mean_absolute_error");
  EXPECT_LT(error, 0.5);

  const Outcome evaluated = evaluate();
  ASSERT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr(fmt::format("mean absolute error = {:.3f}\n", error)));
}

TEST_F(OwnTask, HasNoReportOfClasses) {
  expect_one_line(evaluate("--report " + path("report.json")), ExitCode::usage,
                  "--report is not available for a program with its own task");
}

}  // namespace
}  // namespace carillon
