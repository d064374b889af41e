#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "src/comm/allreduce/communicator.h"
#include "src/device/cuda_device.h"
#include "src/train/control/rank_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class StartupOnGpus : public GpuTest {
 protected:
  /// Creates a communicator on this rank. The only GPU that the rank sees is `only_gpu`. Expects the communicator's
  /// name and a correct mean. Returns the text that the rank prints on stderr.
  static std::string printed_for(const fake_cuda::Gpu& only_gpu, std::string_view communicator_name) {
    fake_cuda::configure({.gpus = {only_gpu}});
    CudaDevice device(0);
    ::testing::internal::CaptureStderr();
    const auto communicator = make_communicator(mpi_world(), device);
    std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(communicator->name(), mpi_world().size() == 1 ? "self" : communicator_name);
    std::array<float, 1> value{static_cast<float>(mpi_world().rank())};
    const Buffer memory = device.allocate(sizeof value);
    device.upload(value.data(), memory.data(), sizeof value);
    communicator->mean({static_cast<float*>(memory.data()), 1});
    device.download(memory.data(), value.data(), sizeof value);
    EXPECT_EQ(value[0], static_cast<float>(mpi_world().size() - 1) / 2.0f);
    return text;
  }
};

TEST_F(StartupOnGpus, NamesNoInstructionSet) {
  CudaDevice device(0);
  EXPECT_EQ(isas_of_all(device, Arithmetic::bf16, mpi_world()), "");
}

/// The GPUs of all ranks have the same PCI address, as in cloned containers.
TEST_F(StartupOnGpus, RanksThatSeeOnlyTheirOwnGpuUseNcclAndRank0PrintsOneLineOfAdvice) {
  const std::string text = printed_for({.number = mpi_world().rank()}, "nccl");
  if (mpi_world().size() == 1 || mpi_world().rank() > 0) {
    EXPECT_EQ(text, "");
  } else {
    EXPECT_THAT(text, ::testing::StartsWith("warning: each rank on "));
    EXPECT_THAT(text, ::testing::HasSubstr("use --gpus-per-node"));
    EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  }
}

TEST_F(StartupOnGpus, RanksOnMigSlicesOfOneGpuShareIt) {
  const std::string text =
      printed_for({.number = mpi_world().rank(), .name_end = " MIG 1g.18gb"}, "mpi shared memory, staged");
  if (mpi_world().size() > 1 && mpi_world().rank() == 0) {
    EXPECT_THAT(text, ::testing::HasSubstr("share GPU 0000:00:00.0 on "));
  } else {
    EXPECT_EQ(text, "");
  }
}

}  // namespace
}  // namespace carillon::testing
