// Tests of --clip-norm in towers: all implementations of the update must compute the same bits, at any number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

constexpr std::int64_t global_batch = 24;
constexpr int steps = 5;

struct Training {
  Network network = branching_network();
  std::string rule = "momentum";
  double clip_norm = 0.05;
  std::int64_t micro_batch = 0;
  int threads = 1;
  int observe_every = 0;
};

struct Trained {
  std::vector<float> variables, slots, losses;
  std::vector<double> norms;  ///< the norms that the steps report
};

TowerSettings settings_of(const Training& training, int ranks) {
  TowerSettings settings{.batch_size = global_batch / ranks,
                         .micro_batch = training.micro_batch,
                         .optimizer = {.rule = training.rule,
                                       .learning_rate = constant_rate(0.1),
                                       .moving_average_decay = 0.5,
                                       .weight_decay = 0.01,
                                       .clip_norm = training.clip_norm,
                                       .groups = {{.pattern = "*/weights", .rate = 0.5, .frozen_after = 4}}}};
  if (training.rule == "lars") settings.optimizer.lars_coefficient = 0.1;
  return settings;
}

NoiseBatch samples_of(int step, int rank, int ranks, std::size_t image_bytes) {
  const std::int64_t own = global_batch / ranks;
  return {static_cast<std::uint64_t>(step * global_batch + rank * own), static_cast<std::size_t>(own), image_bytes};
}

Trained train(const Training& training, Communicator& communicator) {
  CpuDevice device(training.threads);
  Tower tower(training.network, task_of(training.network), settings_of(training, communicator.size()), device,
              communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    const NoiseBatch samples =
        samples_of(step, communicator.rank(), communicator.size(), training.network.image.bytes());
    StepRequest request{.step = step, .batch = samples.batch()};
    if (training.observe_every > 0 && step % training.observe_every == 0) request.before_update = [] {};
    tower.step(request);
    const StepResult result = tower.next_result(Results::all).value();
    trained.losses.push_back(static_cast<float>(result.loss));
    if (result.gradient_norm) trained.norms.push_back(*result.gradient_norm);
  }
  tower.synchronize_buffers();
  trained.variables.assign(tower.parameters().values().begin(), tower.parameters().values().end());
  for (std::size_t slot = 0; slot < tower.slots().size(); ++slot) {
    const std::span<float> values = tower.slot(static_cast<int>(slot));
    trained.slots.insert(trained.slots.end(), values.begin(), values.end());
  }
  // Waits for the other ranks, because they may still read this rank's slots in shared memory.
  if (mpi_world().size() == communicator.size()) mpi_world().barrier();
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

void expect_equal_bits(const Trained& found, const Trained& expected) {
  EXPECT_TRUE(equal_bits(found.variables, expected.variables));
  EXPECT_TRUE(equal_bits(found.slots, expected.slots));
  EXPECT_TRUE(equal_bits(found.losses, expected.losses));
  EXPECT_EQ(found.norms, expected.norms);
  EXPECT_EQ(found.norms.size(), static_cast<std::size_t>(steps));
}

Network mnist() { return mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})); }

TEST(ClipNorm, GivesTheSameBitsWithShardsAndWithout) {
  for (const Training& training :
       {Training{.network = mnist(), .rule = "sgd"}, Training{.network = mnist(), .rule = "adamw", .threads = 2},
        Training{.threads = 3}, Training{.rule = "nesterov"}, Training{.rule = "lars"}, Training{.rule = "lamb"},
        Training{.rule = "muon"}}) {
    SCOPED_TRACE(training.network.name + ", " + training.rule);
    CpuDevice device(1);
    WithoutSharedHostMemory plain(device);
    const Trained expected = train(training, plain);
    for (const double norm : expected.norms) EXPECT_GT(norm, training.clip_norm) << "nothing is clipped";
    Training other = training;
    expect_equal_bits(train_together(other), expected);
    other.observe_every = 2;
    expect_equal_bits(train_together(other), expected);
    Training unclipped = training;
    unclipped.clip_norm = 0.0;
    const Trained without = train_together(unclipped);
    EXPECT_FALSE(equal_bits(without.variables, expected.variables));
    EXPECT_TRUE(without.norms.empty());
  }
}

TEST(ClipNorm, GivesTheSameBitsAtAnyNumberOfRanksWithMicroBatches) {
  for (const char* const rule : {"sgd", "momentum", "nesterov", "adamw", "lars", "lamb", "muon", "muon-nesterov"}) {
    SCOPED_TRACE(rule);
    Training training{.network = normalized_network(), .rule = rule, .micro_batch = 3};
    const Trained expected = train_alone(training);
    expect_equal_bits(train_together(training), expected);
    training.threads = 2;
    training.observe_every = 2;
    expect_equal_bits(train_together(training), expected);
  }
}

/// The norm is summed in more blocks than there are ranks, and the shards end within blocks.
TEST(ClipNorm, GivesTheSameBitsAtAnyNumberOfRanksWithManyBlocks) {
  const Training training{.network = mnist(), .micro_batch = 3};
  const ParameterLayout layout(build_network(training.network, {1}).graph.parameters());
  ASSERT_NE(reduction_slice(layout.total(), 0, 2).end % sum_block_floats, 0u);
  expect_equal_bits(train_together(training), train_alone(training));
}

/// The gradients that before_update sees are means over all ranks.
TEST(ClipNorm, IsThatOfTheMeanGradientWithItsL2Part) {
  Training training{.network = mnist()};
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi_world(), device);
  Tower tower(training.network, ten_classes(), settings_of(training, communicator->size()), device, *communicator);
  if (communicator->rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < steps; ++step) {
    double squares = 0.0;
    const NoiseBatch samples = samples_of(step, communicator->rank(), communicator->size(), 784);
    tower.step({.step = step, .batch = samples.batch(), .before_update = [&] {
                  const std::vector<ParameterSpec>& specs = tower.parameters().specs();
                  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
                    if (!tower.trains(i, step)) continue;
                    const auto gradients = tower.parameters().gradient(i).floats();
                    const auto values = tower.parameters().value(i).floats();
                    const double l2 = specs[static_cast<std::size_t>(i)].l2_factor;
                    for (std::size_t k = 0; k < gradients.size(); ++k) {
                      squares += std::pow(gradients[k] + l2 * values[k], 2.0);
                    }
                  }
                }});
    const double norm = tower.next_result(Results::all).value().gradient_norm.value();
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-6 * norm) << step;
  }
}

TEST(ClipNorm, IsNotReportedForAStepThatIsNotUpdated) {
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi_world(), device);
  const Training training{.network = mnist()};
  Tower tower(training.network, ten_classes(), settings_of(training, communicator->size()), device, *communicator);
  if (communicator->rank() == 0) {
    tower.initialize(1);
    std::ranges::fill(tower.parameters().value(0).floats(), 3e38f);
  }
  tower.broadcast_from_first();
  const std::vector<float> before(tower.parameters().values().begin(), tower.parameters().values().end());
  const NoiseBatch samples = samples_of(0, communicator->rank(), communicator->size(), 784);
  tower.step({.step = 0, .batch = samples.batch()});
  const StepResult result = tower.next_result(Results::all).value();
  EXPECT_FALSE(std::isfinite(result.loss));
  EXPECT_FALSE(result.gradient_norm);
  EXPECT_TRUE(equal_bits(before, {tower.parameters().values().begin(), tower.parameters().values().end()}));
}

}  // namespace
}  // namespace carillon::testing
