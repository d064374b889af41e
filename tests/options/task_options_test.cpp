// Tests which combinations of task options and sampling options are rejected.
#include <gmock/gmock.h>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

TrainOptions parsed(std::vector<const char*> arguments) {
  TrainOptions options;
  options.checkpoint.train_dir = "runs";
  OptionSet set;
  declare(set, options);
  arguments.insert(arguments.begin(), "program");
  set.parse(static_cast<int>(arguments.size()), arguments.data());
  check_combinations(set, options);
  return options;
}

void expect_refused(const std::vector<const char*>& arguments, const std::string& said) {
  try {
    parsed(arguments);
    ADD_FAILURE() << said << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(said));
  }
}

TEST(TaskOptions, NameTheWeightsOfTheClasses) {
  EXPECT_FALSE(parsed({}).task.weighs_classes());
  EXPECT_TRUE(parsed({"--class-weights", "balanced"}).task.balances_weights());
  const TaskOptions of_file = parsed({"--class-weights", "weights.csv"}).task;
  EXPECT_TRUE(of_file.has_weight_file() && of_file.weighs_classes());
  EXPECT_FALSE(of_file.balances_weights());
}

TEST(TaskOptions, RefuseAPatienceWithoutEvaluations) {
  expect_refused({"--patience", "3"}, "--patience requires --eval-data");
  expect_refused({"--patience", "3", "--eval-data", "test-*"}, "--patience requires --eval-every");
  EXPECT_EQ(parsed({"--patience", "3", "--eval-data", "test-*", "--eval-every", "100"}).task.patience, 3);
  expect_refused({"--patience", "-1"}, "--patience: '-1' is not a whole number of at least 0");
}

TEST(TaskOptions, RefuseAFocalGammaBelowZero) {
  EXPECT_EQ(parsed({"--focal-gamma", "0.5"}).task.focal_gamma, 0.5);
  expect_refused({"--focal-gamma", "-0.5"}, "--focal-gamma: '-0.5' is not a number of at least 0");
}

TEST(SamplingOption, RefusesOrdersOfTheFiles) {
  EXPECT_EQ(parsed({"--sampling", "balanced"}).data.sampling, Sampling::balanced);
  expect_refused({"--sampling", "balanced", "--shuffle-window", "100"}, "remove --shuffle-window");
  expect_refused({"--sampling", "balanced", "--sharding", "file"}, "remove --sharding file");
  parsed({"--sampling", "uniform", "--shuffle-window", "100"});
}

}  // namespace
}  // namespace carillon::testing
