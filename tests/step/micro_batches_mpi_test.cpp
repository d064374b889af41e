#include "src/step/gradients/micro_batches.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t micro_batch = 3;

struct Training {
  Network network = normalized_network();
  std::int64_t micro_batches = 8;  ///< number of micro-batches per step, over all towers
  std::string rule = "momentum";
  int threads = 1, steps = 3;
  bool is_observed = false;
  LookaheadSettings lookahead = {};
};

struct Trained {
  std::vector<float> variables, buffers, losses;
};

TowerSettings settings_of(const Training& training, int towers) {
  return {.batch_size = micro_batch * training.micro_batches / towers,
          .micro_batch = micro_batch,
          .optimizer = {.rule = training.rule,
                        .learning_rate = constant_rate(0.1),
                        .moving_average_decay = 0.5,
                        .lookahead = training.lookahead}};
}

/// Returns the samples of tower `rank` in step `step`, which has `towers` towers.
NoiseBatch samples_of(const Training& training, int step, int rank, int towers) {
  const std::int64_t own = micro_batch * training.micro_batches / towers;
  return {static_cast<std::uint64_t>(step * own * towers + rank * own), static_cast<std::size_t>(own), 784};
}

Trained train(const Training& training, Communicator& communicator, Device& device) {
  Tower tower(training.network, task_of(training.network), settings_of(training, communicator.size()), device,
              communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  Trained trained;
  for (int step = 0; step < training.steps; ++step) {
    const NoiseBatch samples = samples_of(training, step, communicator.rank(), communicator.size());
    StepRequest request{.step = step, .batch = samples.batch()};
    if (training.is_observed) request.before_update = [] {};
    tower.step(request);
    trained.losses.push_back(static_cast<float>(tower.next_result(Results::all).value().loss));
  }
  tower.synchronize_buffers();
  trained.variables.assign(tower.parameters().values().begin(), tower.parameters().values().end());
  trained.buffers.assign(tower.buffers().values().begin(), tower.buffers().values().end());
  return trained;
}

Trained train_alone(const Training& training) {
  CpuDevice device(training.threads);
  return train(training, *make_self_communicator(device), device);
}

std::unique_ptr<Communicator> communicator_of(const Training& training, Device& device) {
  const int towers = mpi_world().size();
  return make_communicator(mpi_world(), device, "auto", {}, averaging_of(settings_of(training, towers), towers));
}

Trained train_together(const Training& training) {
  CpuDevice device(training.threads);
  return train(training, *communicator_of(training, device), device);
}

void expect_equal_bits(const Trained& found, const Trained& expected) {
  EXPECT_TRUE(equal_bits(found.variables, expected.variables));
  EXPECT_TRUE(equal_bits(found.buffers, expected.buffers));
  EXPECT_TRUE(equal_bits(found.losses, expected.losses));
}

TEST(MicroBatches, GiveTheSameBitsAtAnyNumberOfTowers) {
  for (const std::int64_t micro_batches : {4, 8, 32}) {
    for (const bool is_observed : {false, true}) {
      SCOPED_TRACE(::testing::Message() << micro_batches << ", observed " << is_observed);
      const Training training{.micro_batches = micro_batches, .is_observed = is_observed};
      if (!std::has_single_bit(static_cast<std::uint64_t>(micro_batches / mpi_world().size()))) continue;
      expect_equal_bits(train_together(training), train_alone({.micro_batches = micro_batches}));
    }
  }
}

TEST(MicroBatches, GiveTheSameBitsWhereEachTowerUpdatesForItself) {
  for (const char* const rule : {"lars", "muon"}) {
    SCOPED_TRACE(rule);
    const Training training{.rule = rule};
    expect_equal_bits(train_together(training), train_alone(training));
  }
}

TEST(MicroBatches, GiveTheSameBitsWithALookaheadOverVariablesAndStates) {
  const Training training{.steps = 5, .lookahead = {.every = 2, .decay = 0.7}};
  const Trained expected = train_alone(training);
  expect_equal_bits(train_together(training), expected);
  EXPECT_FALSE(equal_bits(expected.buffers, train_alone({.steps = 5}).buffers));
}

TEST(MicroBatches, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Training training{.network = lenet_network(mnist_images({.pixel_scale = 1.0f / 255.0f}))};
  const Trained expected = train_alone(training);
  for (const int threads : {2, 3, 16}) {
    SCOPED_TRACE(threads);
    Training threaded = training;
    threaded.threads = threads;
    expect_equal_bits(train_together(threaded), expected);
  }
}

TEST(MicroBatches, GiveTheSameBitsWithAttentionAndLayerNormsOnAnyNumberOfThreads) {
  const Training training{.network = attending_network(), .rule = "adamw"};
  const Trained expected = train_alone(training);
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    Training threaded = training;
    threaded.threads = threads;
    expect_equal_bits(train_together(threaded), expected);
  }
}

TEST(MicroBatches, GiveTheSameBitsWhereTheirSamplesAreMixed) {
  const Training training{.network = mixed_network()};
  const Trained expected = train_alone(training);
  expect_equal_bits(train_together(training), expected);
  EXPECT_FALSE(equal_bits(expected.variables, train_alone({.network = branching_network()}).variables));
}

TEST(MicroBatches, OfNoPowerOfTwoAreEqualUpToRounding) {
  const Training training{.micro_batches = 3 * mpi_world().size(), .steps = 2};
  const Trained found = train_together(training), expected = train_alone(training);
  expect_near(found.variables, expected.variables, 1e-5);
  expect_near(found.buffers, expected.buffers, 1e-5);
  expect_near(found.losses, expected.losses, 1e-5);
}

TEST(MicroBatches, EqualTheWholeBatchWhereANetworkTakesSamplesApart) {
  const Network network = mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f}));
  const Trained parts = train_together({.network = network}), start = train_alone({.network = network, .steps = 0});
  CpuDevice device(1);
  const auto alone = make_self_communicator(device);
  Tower tower(network, task_of(network),
              {.batch_size = 24,
               .optimizer = {.rule = "momentum", .learning_rate = constant_rate(0.1), .moving_average_decay = 0.5}},
              device, *alone);
  tower.initialize(1);
  for (int step = 0; step < 3; ++step) {
    const NoiseBatch samples(static_cast<std::uint64_t>(24 * step), 24, 784);
    tower.step({.step = step, .batch = samples.batch()});
    EXPECT_NEAR(parts.losses[step], tower.next_result(Results::all).value().loss, 1e-5);
  }
  const std::vector<float> whole(tower.parameters().values().begin(), tower.parameters().values().end());
  EXPECT_GT(distance(whole, start.variables), 0.01);
  EXPECT_LT(distance(parts.variables, whole), 1e-5 * distance(whole, start.variables));
}

TEST(MicroBatches, LeaveTheMeanOfTheStatesThatEachWouldHaveLeft) {
  const Training training{.micro_batches = 4, .steps = 1};
  const Trained found = train_together(training);
  std::vector<float> mean(found.buffers.size());
  for (int part = 0; part < 4; ++part) {
    CpuDevice device(1);
    const auto alone = make_self_communicator(device);
    Tower tower(training.network, task_of(training.network), {.batch_size = micro_batch}, device, *alone);
    tower.initialize(1);
    const NoiseBatch samples(static_cast<std::uint64_t>(micro_batch * part), micro_batch, 784);
    tower.step({.step = 0, .batch = samples.batch()});
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += tower.buffers().values()[i] / 4.0f;
  }
  expect_near(found.buffers, mean, 1e-6);
  EXPECT_GT(std::accumulate(mean.begin(), mean.end(), 0.0), 0.1);
}

TEST(MicroBatches, LetAllTowersKnowOfARequestForAPause) {
  const Training training;
  CpuDevice device(1);
  const auto communicator = communicator_of(training, device);
  Tower tower(training.network, task_of(training.network), settings_of(training, communicator->size()), device,
              *communicator);
  if (communicator->rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (const bool asks : {false, true}) {
    const NoiseBatch samples = samples_of(training, 0, communicator->rank(), communicator->size());
    const bool is_last = communicator->rank() == communicator->size() - 1;
    tower.step({.step = 0, .batch = samples.batch(), .request_sync = asks && is_last});
    EXPECT_EQ(tower.next_result(Results::all).value().sync_requested, asks);
  }
}

}  // namespace
}  // namespace carillon::testing
