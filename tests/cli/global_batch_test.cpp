#include "src/cli/launch/resolve_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"
#include "src/device/cpu_device.h"
#include "src/train/loop/training_setup.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class GlobalBatch : public ::testing::Test {
 protected:
  /// Parses the options of a training on `ranks` ranks. Throws an error if the program rejects them.
  static TrainOptions settled(std::vector<const char*> arguments, int ranks) {
    const ProgramSpec program_spec = cifar10_program();
    TrainOptions options = program_spec.defaults;
    options.model.make = network_named(program_spec, "cifar10");
    options.task.value.outputs = 10;
    options.checkpoint.train_dir = "runs";
    OptionSet set;
    declare(set, options);
    arguments.insert(arguments.begin(), "program");
    set.parse(static_cast<int>(arguments.size()), arguments.data());
    check_combinations(set, options);
    resolve_batch(options.data, options.optimizer.schedule, program_spec, ranks);
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
    EXPECT_EQ(options.data.batch_size, 96 / ranks);
    EXPECT_EQ(options.data.samples_at_once(), 12);
    EXPECT_EQ(tower_settings(options).micro_batch, 12);
    EXPECT_EQ(averaging_of(tower_settings(options), ranks).divisor, 8);
  }
  const TrainOptions whole = settled({"--global-batch", "96"}, 4);
  EXPECT_EQ(whole.data.samples_at_once(), 24);
  EXPECT_EQ(averaging_of(tower_settings(whole), 4).divisor, 0);
}

TEST_F(GlobalBatch, HasSamplesOfItsOwnFilesAtThisNumberOfRanksOnly) {
  settled({"--sharding", "file"}, 4);
  expect_refused({"--sharding", "file", "--cache", "memory"}, 1,
                 "--sharding file requires records that are decoded ahead");
  expect_refused({"--sharding", "file", "--data", "synthetic"}, 1,
                 "--sharding file requires files, and --data synthetic has none");
  expect_refused({"--stage", "/tmp", "--data", "synthetic"}, 1,
                 "--stage requires files, and --data synthetic has none");
}

TEST_F(GlobalBatch, IsNoLargerThanTheShuffledWindow) {
  settled({"--batch-size", "32", "--shuffle-window", "128"}, 4);
  expect_refused({"--batch-size", "32", "--shuffle-window", "127"}, 4,
                 "--shuffle-window 127 is smaller than the 128 samples of a step");
  settled({"--batch-size", "32", "--shuffle-window", "32", "--sharding", "file"}, 4);
  expect_refused({"--batch-size", "32", "--shuffle-window", "31", "--sharding", "file"}, 4,
                 "--shuffle-window 31 is smaller than the 32 samples of a step of a rank");
}

TEST_F(GlobalBatch, HasOneScheduleAtAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(settled({"--global-batch", "128"}, ranks).optimizer.schedule.decay_steps, 136718);
    EXPECT_EQ(settled({"--global-batch", "128", "--decay-steps", "7"}, ranks).optimizer.schedule.decay_steps, 7);
  }
  EXPECT_EQ(settled({}, 4).optimizer.schedule.decay_steps, 34179);
}

TEST_F(GlobalBatch, OfACommandCountsBeforeARecipesBatchSize) {
  const std::string path = ::testing::TempDir() + "global_batch.cfg";
  std::ofstream(path) << "batch-size = 12\n";
  EXPECT_EQ(settled({"--global-batch", "96", "--config", path.c_str()}, 2).data.batch_size, 48);
  std::ofstream(path) << "global-batch = 96\n";
  expect_refused({"--batch-size", "12", "--config", path.c_str()}, 2, "change it instead, or add --global-batch 0");
  expect_refused({"--batch-size", "12", "--global-batch", "96"}, 2, "give one of them");
}

TEST_F(GlobalBatch, OrAnotherCauseOfItsSizeIsNamedForItsMemory) {
  const CpuDevice device(2);
  const auto in_memory = [&](const std::vector<const char*>& arguments) {
    return batch_in_memory(settled(arguments, 2).data, device);
  };
  EXPECT_EQ(in_memory({"--batch-size", "12"}).option, "--batch-size 12");
  EXPECT_EQ(in_memory({"--global-batch", "96"}).option, "--global-batch 96");
  EXPECT_EQ(in_memory({"--global-batch", "96"}).at_once, 0);
  EXPECT_EQ(in_memory({"--global-batch", "96", "--micro-batch", "12"}).option, "--micro-batch 12");
  EXPECT_EQ(in_memory({"--global-batch", "96", "--micro-batch", "12"}).at_once, 2);
  EXPECT_EQ(in_memory({"--global-batch", "96", "--micro-batch", "48"}).at_once, 1);
}

TEST_F(GlobalBatch, IsRefusedWhereItCannotBeSharedOut) {
  expect_refused({"--global-batch", "96"}, 5, "5 ranks cannot share its 96 samples evenly");
  expect_refused({"--global-batch", "96", "--micro-batch", "32"}, 2, "2 ranks cannot share its 3 micro-batches");
  expect_refused({"--global-batch", "96", "--micro-batch", "20"}, 1, "is not a multiple of --micro-batch 20");
  expect_refused({"--micro-batch", "12"}, 1, "--micro-batch requires --global-batch");
  expect_refused({"--global-batch", "96", "--micro-batch", "12", "--wire", "bf16"}, 2, "--wire bf16 rounds sums");
  expect_refused({"--global-batch", "96", "--batch-size", "12"}, 1, "give one of them");
  expect_refused({"--global-batch", "96", "--micro-batch", "12", "--sync-batch-norm"}, 1,
                 "--sync-batch-norm requires whole batches");
}

TEST_F(GlobalBatch, IsMixedAsTheOptionsSay) {
  const MixingSettings off = network_to_train(settled({}, 1)).mixing;
  EXPECT_EQ(off.mixup, 0.0);
  EXPECT_EQ(off.cutmix, 0.0);
  const MixingSettings both = network_to_train(settled({"--mixup", "0.2", "--cutmix", "1", "--seed", "7"}, 1)).mixing;
  EXPECT_EQ(both.mixup, 0.2);
  EXPECT_EQ(both.cutmix, 1.0);
  EXPECT_EQ(both.seed, 7u);
}

TEST_F(GlobalBatch, ANetworksBatchNormsAndL2AreAsTheOptionsSay) {
  const Network plain = network_to_train(settled({}, 1));
  EXPECT_FALSE(plain.freeze_batch_norm);
  EXPECT_TRUE(plain.frozen_variables.empty());
  EXPECT_TRUE(plain.l2_exclude.empty());
  const Network network =
      network_to_train(settled({"--freeze-batch-norm", "--freeze", "a*", "b", "--decay-exclude", "c*"}, 1));
  EXPECT_TRUE(network.freeze_batch_norm);
  EXPECT_EQ(network.frozen_variables, (std::vector<std::string>{"a*", "b"}));
  EXPECT_EQ(network.l2_exclude, (std::vector<std::string>{"c*"}));
}

TEST_F(GlobalBatch, IsWarpedAsTheOptionsSay) {
  const WarpSettings off = network_to_train(settled({}, 1)).warp;
  EXPECT_EQ(off.rotation, 0.0);
  EXPECT_EQ(off.zoom, 0.0);
  EXPECT_EQ(off.shift, 0.0);
  const WarpSettings all =
      network_to_train(settled({"--rotate", "12", "--zoom", "0.1", "--shift", "0.2", "--seed", "7"}, 1)).warp;
  EXPECT_EQ(all.rotation, 12.0);
  EXPECT_EQ(all.zoom, 0.1);
  EXPECT_EQ(all.shift, 0.2);
  EXPECT_EQ(all.seed, 7u);
}

TEST_F(GlobalBatch, IsNotWarpedInWaysThatCannotBe) {
  expect_refused({"--rotate", "-1"}, 1, "--rotate");
  expect_refused({"--rotate", "inf"}, 1, "--rotate");
  expect_refused({"--zoom", "1"}, 1, "--zoom");
  expect_refused({"--shift", "1.1"}, 1, "--shift");
}

TEST_F(GlobalBatch, IsNotMixedInWaysThatCannotBe) {
  expect_refused({"--mixup", "-0.1"}, 1, "--mixup");
  expect_refused({"--cutmix", "nan"}, 1, "--cutmix");
  expect_refused({"--cutmix", "inf"}, 1, "--cutmix");
  expect_refused({"--mixup", "0.2", "--batch-size", "1"}, 1,
                 "--mixup requires a batch, or micro-batch, of at least 2 samples");
  expect_refused({"--cutmix", "1", "--global-batch", "4"}, 4, "--cutmix requires a batch");
  expect_refused({"--cutmix", "1", "--global-batch", "4", "--micro-batch", "1"}, 2, "--cutmix requires a batch");
  EXPECT_EQ(settled({"--cutmix", "1", "--global-batch", "8"}, 4).data.batch_size, 2);
  EXPECT_EQ(settled({"--batch-size", "1"}, 1).data.batch_size, 1);
}

}  // namespace
}  // namespace carillon::testing
