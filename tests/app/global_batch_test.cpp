#include "src/app/global_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "carillon/app/options.h"
#include "carillon/core/error.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class GlobalBatch : public ::testing::Test {
 protected:
  /// A training's options at `ranks` ranks, refused or not.
  static TrainOptions settled(std::vector<const char*> arguments, int ranks) {
    const Preset preset = cifar10_preset();
    TrainOptions options = preset.defaults;
    options.train_dir = "runs";
    OptionSet set("");
    declare(set, options);
    arguments.insert(arguments.begin(), "program");
    set.parse(static_cast<int>(arguments.size()), arguments.data());
    check_combinations(set, options);
    settle_batch(options, preset, ranks);
    return options;
  }
  static void expect_refused(const std::vector<const char*>& arguments, int ranks, const std::string& said) {
    try {
      settled(arguments, ranks);
      ADD_FAILURE() << said << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  }
};

TEST_F(GlobalBatch, IsSharedOutOverTheRanks) {
  for (const int ranks : {1, 2, 4}) {
    const TrainOptions options = settled({"--global-batch", "96", "--micro-batch", "12"}, ranks);
    EXPECT_EQ(options.batch_size, 96 / ranks);
    EXPECT_EQ(options.samples_at_once(), 12);
    EXPECT_EQ(options.tower().micro_batch, 12);
    EXPECT_EQ(averaging_of(options.tower(), ranks).divisor, 8);
  }
  const TrainOptions whole = settled({"--global-batch", "96"}, 4);
  EXPECT_EQ(whole.samples_at_once(), 24);
  EXPECT_EQ(averaging_of(whole.tower(), 4).divisor, 0);
}

TEST_F(GlobalBatch, HasOneScheduleAtAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(settled({"--global-batch", "128"}, ranks).decay_steps, 136718);
    EXPECT_EQ(settled({"--global-batch", "128", "--decay-steps", "7"}, ranks).decay_steps, 7);
  }
  EXPECT_EQ(settled({}, 4).decay_steps, 34179);
}

TEST_F(GlobalBatch, OfACommandCountsBeforeARecipesBatchSize) {
  const std::string path = ::testing::TempDir() + "global_batch.cfg";
  std::ofstream(path) << "batch-size = 12\n";
  EXPECT_EQ(settled({"--global-batch", "96", "--config", path.c_str()}, 2).batch_size, 48);
  std::ofstream(path) << "global-batch = 96\n";
  expect_refused({"--batch-size", "12", "--config", path.c_str()}, 2, "give one of them");
}

TEST_F(GlobalBatch, IsRefusedWhereItCannotBeSharedOut) {
  expect_refused({"--global-batch", "96"}, 5, "its 96 samples cannot be shared out evenly over 5 ranks");
  expect_refused({"--global-batch", "96", "--micro-batch", "32"}, 2, "its 3 micro-batches cannot be shared out");
  expect_refused({"--global-batch", "96", "--micro-batch", "20"}, 1, "no multiple of --micro-batch 20");
  expect_refused({"--micro-batch", "12"}, 1, "--micro-batch needs --global-batch");
  expect_refused({"--global-batch", "96", "--batch-size", "12"}, 1, "give one of them");
  expect_refused({"--global-batch", "96", "--micro-batch", "12", "--sync-batch-norm"}, 1, "--sync-batch-norm: with");
}

}  // namespace
}  // namespace carillon::testing
