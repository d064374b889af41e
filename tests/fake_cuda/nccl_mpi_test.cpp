// NCCL's communicator on a fake of NCCL, in which all ranks have equal values.
#include <array>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class NcclTest : public GpuTest {
 protected:
  static constexpr std::array<float, 6> values_ = {1.0f, -2.0f, 3.5f, 0.0f, 0.25f, 1e6f};

  static std::array<float, 6> downloaded(CudaDevice& device, const Buffer& memory) {
    std::array<float, 6> found{};
    device.download(memory.data(), found.data(), sizeof found);
    return found;
  }
};

TEST_F(NcclTest, LeavesSumsOfWhichTheFactorMakesMeans) {
  for (const bool windows : {true, false}) {  // memory that is registered, or that cannot be
    fake_cuda::configure({.nccl_windows = windows});
    CudaDevice device(0);
    const auto nccl = make_nccl_communicator(mpi_world(), device);
    const Buffer memory = nccl->allocate(sizeof values_);
    EXPECT_EQ(downloaded(device, memory), (std::array<float, 6>{}));
    device.upload(values_.data(), memory.data(), sizeof values_);
    nccl->start_allreduce_mean({static_cast<float*>(memory.data()), values_.size()}, device.stream());
    nccl->finish(device.stream());
    device.stream().synchronize();
    const std::array<float, 6> found = downloaded(device, memory);
    const auto ranks = static_cast<float>(mpi_world().size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      EXPECT_EQ(found[i], values_[i] * ranks);
      EXPECT_EQ(found[i] * nccl->result_scale(), values_[i]);
    }
  }
}

TEST_F(NcclTest, MeansOfSmallArraysAreMeans) {
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device);
  const Buffer memory = device.allocate(sizeof values_);
  device.upload(values_.data(), memory.data(), sizeof values_);
  nccl->mean({static_cast<float*>(memory.data()), values_.size()});
  EXPECT_EQ(downloaded(device, memory), values_);
}

}  // namespace
}  // namespace carillon::testing
