// NCCL's communicator on a fake of NCCL, which adds in rank order.
#include <array>
#include <vector>

#include "carillon/core/sum_in_order.h"

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

/// The values of a rank: their sum depends on its order.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank) * 17) % 101) / 7.0f;
  }
  return values;
}

TEST_F(NcclTest, SumsAsATreeInTheOrderOfTheHost) {
  const int ranks = mpi_world().size();
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device, {.order = SumOrder::tree, .divisor = 3 * ranks});
  constexpr std::size_t count = 1000;
  const Buffer memory = nccl->allocate(count * sizeof(float));
  const std::span all(static_cast<float*>(memory.data()), count);
  const auto buckets = {all.first(16), all.subspan(16, 4), all.subspan(20)};
  nccl->prepare(count - 20);
  std::vector<std::vector<float>> parts;
  std::vector<const float*> pointers;
  for (int rank = 0; rank < ranks; ++rank) pointers.push_back(parts.emplace_back(values_of(rank, count)).data());
  std::vector<float> expected(count), found(count);
  const float factor = ranks == 1 ? 1.0f : 1.0f / static_cast<float>(3 * ranks);  // one rank has divided already
  sum_in_order(pointers, count, factor, expected.data(), SumOrder::tree);
  for (int repetition = 0; repetition < 2; ++repetition) {
    device.upload(parts[static_cast<std::size_t>(mpi_world().rank())].data(), memory.data(), count * sizeof(float));
    for (const auto& bucket : buckets) nccl->start_allreduce_mean(bucket, device.stream());
    nccl->finish(device.stream());
    device.download(memory.data(), found.data(), count * sizeof(float));
    EXPECT_EQ(nccl->result_scale(), 1.0f);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace carillon::testing
