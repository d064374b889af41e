#include <gtest/gtest.h>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t global_batch = 24;
constexpr int steps = 4;

struct Trained {
  std::vector<float> variables, buffers;
};

/// Trains a network with batch norms for `step_count` steps. Each tower has an equal part of the global batch.
Trained train(Communicator& communicator, bool synchronized, int step_count = steps) {
  CpuDevice device(1);
  Network network = normalized_network();
  network.sync_batch_norm = synchronized;
  const std::int64_t own = global_batch / communicator.size();
  Tower tower(network, task_of(network),
              {.batch_size = own,
               .optimizer = {.rule = "momentum", .learning_rate = constant_rate(0.1), .moving_average_decay = 0.5}},
              device, communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < step_count; ++step) {
    const NoiseBatch samples(static_cast<std::uint64_t>(step * global_batch + communicator.rank() * own),
                             static_cast<std::size_t>(own), 784);
    tower.step({.step = step, .batch = samples.batch()});
  }
  tower.synchronize_buffers();
  const auto variables = tower.parameters().values(), buffers = tower.buffers().values();
  return {{variables.begin(), variables.end()}, {buffers.begin(), buffers.end()}};
}

class SyncBatchNorm : public ::testing::TestWithParam<const char*> {
 protected:
  /// If the parameter is "one", all ranks are on one simulated host; otherwise, each rank has its own simulated host.
  std::unique_ptr<Communicator> communicator() const {
    std::vector<int> hosts;
    for (int rank = 0; rank < mpi_world().size(); ++rank) hosts.push_back(GetParam() == std::string("one") ? 0 : rank);
    return make_host_communicator(mpi_world(), hosts);
  }
  CpuDevice device_{1};
  Trained alone_ = train(*make_self_communicator(device_), false);
  double travelled_ = distance(alone_.variables, train(*make_self_communicator(device_), false, 0).variables);
};

TEST_P(SyncBatchNorm, MakesTowersEqualOneThatTakesTheWholeBatch) {
  const Trained found = train(*communicator(), true);
  EXPECT_GT(travelled_, 0.05);
  EXPECT_LT(distance(found.variables, alone_.variables), 1e-4 * travelled_);
  expect_near(found.buffers, alone_.buffers, 1e-5);
}

TEST_P(SyncBatchNorm, IsNotWhatTowersDoByThemselves) {
  if (mpi_world().size() == 1) return;  // with one rank, both trainings are the same
  EXPECT_GT(distance(train(*communicator(), false).variables, alone_.variables), 1e-2 * travelled_);
}

INSTANTIATE_TEST_SUITE_P(Hosts, SyncBatchNorm, ::testing::Values("one", "several"));

}  // namespace
}  // namespace carillon::testing
