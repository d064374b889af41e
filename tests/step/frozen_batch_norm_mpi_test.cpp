// Tests towers with --freeze-batch-norm, and with --freeze and patterns that match batch norms.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Training {
  bool freezes_all = true;
  std::vector<std::string> frozen_variables = {};
  bool synchronizes = false;
  std::int64_t global_batch = 24;
  std::int64_t micro_batch = 0;
  Arithmetic arithmetic = Arithmetic::fp32;
};

struct Trained {
  std::vector<float> variables, buffers, start;  ///< start: the buffers before the first step
  std::vector<float> losses;
};

Network network_of(const Training& training) {
  Network network = normalized_network();
  network.freeze_batch_norm = training.freezes_all;
  network.frozen_variables = training.frozen_variables;
  network.sync_batch_norm = training.synchronizes;
  return network;
}

TowerSettings settings_of(const Training& training, int ranks) {
  return {.batch_size = training.global_batch / ranks,
          .micro_batch = training.micro_batch,
          .arithmetic = training.arithmetic,
          .optimizer = {.rule = "momentum",
                        .learning_rate = constant_rate(0.05),
                        .moving_average_decay = 0.5,
                        .lookahead = {.every = 2, .decay = 0.7}}};
}

/// Trains three steps and synchronises the buffers.
Trained train(const Training& training, Communicator& communicator) {
  CpuDevice device(2);
  const Network network = network_of(training);
  Tower tower(network, task_of(network), settings_of(training, communicator.size()), device, communicator);
  if (communicator.rank() == 0) {
    tower.initialize(1);
    for (std::size_t i = 0; i < tower.buffers().specs().size(); ++i) {
      const std::span<float> values = tower.buffers().tensor(static_cast<int>(i)).floats();
      std::ranges::copy(random_values(values.size(), i, 0.5f, 3.0f), values.begin());
    }
    LoadedCheckpoint saved;  // makes the slow copies of the lookahead equal to the buffers
    tower.save(saved.state);
    tower.initialize_from(saved);
  }
  tower.broadcast_from_first();
  Trained trained;
  trained.start.assign(tower.buffers().values().begin(), tower.buffers().values().end());
  const std::int64_t own = training.global_batch / communicator.size();
  for (int step = 0; step < 3; ++step) {
    const NoiseBatch samples(static_cast<std::uint64_t>(step * training.global_batch + communicator.rank() * own),
                             static_cast<std::size_t>(own), 784);
    tower.step({.step = step, .batch = samples.batch()});
    trained.losses.push_back(static_cast<float>(tower.next_result(Results::all).value().loss));
    tower.synchronize_buffers();
  }
  trained.variables.assign(tower.parameters().values().begin(), tower.parameters().values().end());
  trained.buffers.assign(tower.buffers().values().begin(), tower.buffers().values().end());
  return trained;
}

Trained train_alone(const Training& training) {
  CpuDevice device(1);
  return train(training, *make_self_communicator(device));
}

Trained train_together(const Training& training) {
  CpuDevice device(1);
  const int ranks = mpi_world().size();
  const auto communicator =
      make_communicator(mpi_world(), device, "auto", {}, averaging_of(settings_of(training, ranks), ranks));
  return train(training, *communicator);
}

/// With three ranks, or with a number of micro-batches that is not a power of two, a mean of equal statistics has
/// rounding errors. So frozen statistics must not be averaged.
TEST(FrozenBatchNorms, KeepTheirStatisticsBitForBit) {
  for (const bool synchronizes : {false, true}) {
    const Trained found = train_together({.synchronizes = synchronizes});
    EXPECT_TRUE(equal_bits(found.buffers, found.start));
  }
  const Trained parts = train_together({.global_batch = 36, .micro_batch = 3});
  EXPECT_TRUE(equal_bits(parts.buffers, parts.start));
  const Trained in_bf16 = train_together({.arithmetic = Arithmetic::bf16});
  EXPECT_TRUE(equal_bits(in_bf16.buffers, in_bf16.start));
  const Trained moving = train_together({.freezes_all = false});
  EXPECT_FALSE(equal_bits(moving.buffers, moving.start)) << "the test would see a change";
}

/// The first run does not freeze its batch norms. So lookahead's slow copies of the running statistics differ from the
/// running statistics.
TEST(FrozenBatchNorms, OfAResumedRunAreNotChangedByItsLookahead) {
  CpuDevice device(1);
  const Training moving{.freezes_all = false}, frozen;
  LoadedCheckpoint saved;
  std::vector<float> start;
  const auto resume = [&](const Training& training, bool restores) {
    const auto communicator = make_communicator(mpi_world(), device);
    const Network network = network_of(training);
    Tower tower(network, task_of(network), settings_of(training, communicator->size()), device, *communicator);
    if (communicator->rank() == 0) restores ? tower.restore(saved) : tower.initialize(1);
    tower.broadcast_from_first();
    start.assign(tower.buffers().values().begin(), tower.buffers().values().end());
    const std::int64_t own = training.global_batch / communicator->size();
    for (int step = 0; step < 3; ++step) {
      const NoiseBatch samples(static_cast<std::uint64_t>(own * communicator->rank()), static_cast<std::size_t>(own),
                               784);
      tower.step({.step = step, .batch = samples.batch()});
    }
    tower.synchronize_buffers();
    tower.save(saved.state);
    mpi_world().barrier();
    return std::vector<float>(tower.buffers().values().begin(), tower.buffers().values().end());
  };
  resume(moving, false);
  EXPECT_TRUE(equal_bits(resume(frozen, true), start));
}

TEST(FrozenBatchNorms, AreNotSynchronised) {
  EXPECT_TRUE(equal_bits(train_together({.synchronizes = true}).variables, train_together({}).variables));
}

TEST(FrozenBatchNorms, GiveTheSameBitsAtAnyNumberOfRanks) {
  const Training training{.micro_batch = 3};
  const Trained found = train_together(training), expected = train_alone(training);
  EXPECT_TRUE(equal_bits(found.variables, expected.variables));
  EXPECT_TRUE(equal_bits(found.losses, expected.losses));
}

/// If no batch norm uses statistics of the batch, the result of a sample does not depend on the other samples.
TEST(FrozenBatchNorms, TakeSamplesApart) {
  const Trained whole = train_alone({}), together = train_together({}), parts = train_together({.micro_batch = 3});
  const Trained moving = train_alone({.freezes_all = false});
  const double other = distance(whole.variables, moving.variables);
  EXPECT_GT(other, 1e-3);
  EXPECT_LT(distance(together.variables, whole.variables), 1e-3 * other);
  EXPECT_LT(distance(parts.variables, whole.variables), 1e-3 * other);
}

TEST(FrozenBatchNorms, AreThoseOfWhichAllVariablesAreFrozen) {
  const auto part = [](const std::vector<float>& buffers, std::size_t first) {
    const std::span<const float> half = std::span(buffers).subspan(first, buffers.size() / 2);
    return std::vector<float>(half.begin(), half.end());
  };
  const auto train_with = [](const std::vector<std::string>& patterns) {
    return train_together({.freezes_all = false, .frozen_variables = patterns});
  };
  const Trained one = train_with({"stem/norm/gamma", "stem/*/beta"}), half = train_with({"*/gamma"}),
                both = train_with({"*/norm/*"}), none = train_together({.freezes_all = false});
  const std::size_t middle = one.buffers.size() / 2;
  EXPECT_TRUE(equal_bits(part(one.buffers, 0), part(one.start, 0))) << "the stem's";
  EXPECT_FALSE(equal_bits(part(one.buffers, middle), part(one.start, middle))) << "the branch's";
  EXPECT_TRUE(equal_bits(both.buffers, both.start));
  EXPECT_TRUE(equal_bits(half.buffers, none.buffers)) << "a batch norm with a variable that trains";
}

}  // namespace
}  // namespace carillon::testing
