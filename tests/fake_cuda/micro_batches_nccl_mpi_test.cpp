// Tests of micro-batches on ranks with one GPU each. In the captured steps, NCCL averages the gradients.
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class MicroBatchesWithNccl : public GpuTest {};

TEST_F(MicroBatchesWithNccl, GiveTheBitsOfOneRank) {
  const NoiseRecords records(97, 784);
  constexpr std::int64_t samples = 3, micro_batches = 8;
  const int ranks = mpi_world().size(), rank = mpi_world().rank();
  Training training{.network = normalized_network(), .steps = 40, .learning_rate = 0.02f, .rule = "nesterov"};
  training.micro_batch = samples;
  training.batch_size = samples * micro_batches;
  training.bucket_bytes = 1024;
  training.observe_every = 9;
  const Trained expected = [&] {
    CudaDevice device(0);
    return train(training, records, device, *make_self_communicator(device));
  }();
  training.batch_size /= ranks;
  fake_cuda::configure({.seed = 10 + static_cast<std::uint64_t>(rank), .devices = ranks});
  CudaDevice own(rank);
  const Averaging averaging{.order = SumOrder::tree, .divisor = micro_batches};
  const auto nccl = make_communicator(mpi_world(), own, "nccl", {}, averaging);
  EXPECT_EQ(nccl->name(), "nccl");
  const Trained found = train(training, records, own, *nccl);
  expect_equal(found, expected);
  EXPECT_EQ(found.observed, expected.observed);
  EXPECT_FALSE(found.captured_nodes.empty());
}

}  // namespace
}  // namespace carillon::testing
