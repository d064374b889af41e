// The fused step of a small classifier on several ranks. Each rank has a GPU; NCCL averages the gradients within
// captured steps.
#include <gmock/gmock.h>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class ClassifierStepWithNccl : public GpuTest {
 protected:
  /// `seed`: of the order of work, which differs between the ranks.
  Trained trained(const Training& training, std::uint64_t seed, std::string_view communicator = "nccl") const {
    fake_cuda::configure({.seed = 10 * seed + static_cast<std::uint64_t>(rank_), .devices = ranks_});
    CudaDevice device(rank_);
    return train(training, records_, device, *make_communicator(mpi_world(), device, communicator));
  }

  NoiseRecords records_{97, 784};
  int ranks_ = mpi_world().size(), rank_ = mpi_world().rank();
  Training training_{.batch_size = 4, .steps = 40, .fuses_step = true, .rule = "momentum", .bucket_bytes = 1024};
};

TEST_F(ClassifierStepWithNccl, HasEqualBitsCapturedOrLaunchedOrAveragedByMpi) {
  const Trained captured = trained(training_, 1);
  EXPECT_THAT(captured.captured_nodes, Contains(HasSubstr("HiddenProducts")));
  if (ranks_ > 1) {
    EXPECT_THAT(captured.captured_nodes, Contains("TileKernel<StoreGradients>"));
    EXPECT_THAT(captured.captured_nodes, Contains(HasSubstr("nccl")));
  }
  expect_equal(trained(training_, 2), captured);
  expect_equal(trained(training_, 3, "mpi"), captured);
  training_.capture = false;
  const Trained launched = trained(training_, 4);
  EXPECT_TRUE(launched.captured_nodes.empty());
  expect_equal(launched, captured);
  const std::string mine(reinterpret_cast<const char*>(captured.values.data()), captured.values.size() * sizeof(float));
  for (const std::string& values : mpi_world().all_gather(mine)) EXPECT_TRUE(values == mine) << "ranks differ";
}

TEST_F(ClassifierStepWithNccl, IsNearTheStepOpByOp) {
  const Trained fused = trained(training_, 1);
  training_.fuses_step = false;
  const Trained op_by_op = trained(training_, 1);
  EXPECT_LT(fused.captured_nodes.size(), op_by_op.captured_nodes.size());
  training_.steps = 0;
  const Trained start = trained(training_, 1);
  EXPECT_LT(distance(fused.values, op_by_op.values), 1e-4 * distance(op_by_op.values, start.values));
}

}  // namespace
}  // namespace carillon::testing
