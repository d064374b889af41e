// Tests --sync-batch-norm on ranks with one GPU each. In the captured steps, NCCL exchanges the statistics.
#include "src/comm/allreduce/communicator.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class SyncBatchNormWithNccl : public GpuTest {
 protected:
  Trained trained(const Training& training, std::string_view communicator, std::uint64_t seed = 1) const {
    fake_cuda::configure({.seed = 10 * seed + static_cast<std::uint64_t>(rank_), .devices = ranks_});
    CudaDevice device(rank_);
    return train(training, records_, device, *make_communicator(mpi_world(), device, communicator));
  }
  Training synchronized(Network network, int steps) const {
    network.sync_batch_norm = true;
    Training training{.network = std::move(network), .steps = steps, .learning_rate = 0.02f, .rule = "nesterov"};
    training.batch_size = 8 / ranks_;
    training.bucket_bytes = 1024;
    return training;
  }

  NoiseRecords records_{97, 784};
  int ranks_ = mpi_world().size(), rank_ = mpi_world().rank();
};

/// The fake NCCL adds in rank order, as the host does.
TEST_F(SyncBatchNormWithNccl, GivesTheBitsOfTheHost) {
  for (const Network& network : {normalized_network(), residual_network()}) {
    SCOPED_TRACE(network.name);
    const Training training = synchronized(network, 6);
    expect_equal(trained(training, "nccl"), trained(training, "mpi"));
  }
}

TEST_F(SyncBatchNormWithNccl, GivesTheSameBitsIfTheStepIsCaptured) {
  Training training = synchronized(residual_network(), 24);
  training.observe_every = 20;
  const Trained captured = trained(training, "nccl");
  training.capture = false;
  const Trained eager = trained(training, "nccl", 2);
  expect_equal(captured, eager);
  EXPECT_EQ(captured.observed, eager.observed);
  EXPECT_TRUE(eager.captured_nodes.empty());
  EXPECT_FALSE(captured.captured_nodes.empty());
}

}  // namespace
}  // namespace carillon::testing
