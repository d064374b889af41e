// Tests the communicator for GPUs that send gradients through host memory, on a fake GPU.
#include "src/comm/allreduce/communicators.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"
#include "tests/comm/fake_gpu.h"
#include "tests/comm/placed_ranks.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Enqueues the same work as CudaStagingCopies on a fake GPU, in the same order. Whenever the host polls for a
/// download, the GPU makes some progress.
class FakeStagingCopies final : public StagingCopies {
 public:
  explicit FakeStagingCopies(FakeGpu& gpu) : gpu_(gpu) {}
  void prepare(std::span<std::byte> /*host*/) override {}
  void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream& /*stream*/) override {
    work_.fork(gpu_.compute);
    gpu_.side.give([=] { std::memcpy(host, device.data(), device.size_bytes()); });
    if (bucket == downloads_.size()) downloads_.emplace_back();
    downloads_[bucket].record(gpu_.side);
  }
  bool downloaded(std::size_t bucket) override {
    gpu_.go_on();
    return downloads_[bucket].done();
  }
  void start_upload(std::span<const float> host, float* device, Stream& /*stream*/) override {
    gpu_.compute.give([=] { std::memcpy(device, host.data(), host.size_bytes()); });
  }

 private:
  FakeGpu& gpu_;
  SideWork<FakeEvent, FakeStream> work_{gpu_.side};
  std::vector<FakeEvent> downloads_;
};

class StagedCommunicatorTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<int> hosts_ = hosts_of(GetParam());
  CpuDevice device_{1};

  std::unique_ptr<Communicator> staged_on(FakeGpu& gpu) const {
    return make_staged_communicator({std::make_unique<CpuDevice>(1), make_host_communicator(mpi_world(), hosts_)}, gpu,
                                    std::make_unique<FakeStagingCopies>(gpu));
  }
};

TEST_P(StagedCommunicatorTest, MeansOfADeviceAreThoseOfTheHostBitForBit) {
  constexpr std::size_t count = 135;
  constexpr int steps = 12;
  for (const std::size_t bucket : {count, std::size_t{3}, std::size_t{16}, std::size_t{100}}) {
    FakeGpu gpu(static_cast<unsigned>(1000 * bucket + static_cast<std::size_t>(mpi_world().rank())));
    const auto staged = staged_on(gpu);
    const Buffer buffer = staged->allocate(count * sizeof(float));
    const std::span<float> array{static_cast<float*>(buffer.data()), count};
    std::vector<std::vector<float>> means(steps);
    for (int step = 0; step < steps; ++step) {
      staged->acquire(gpu.compute);
      for (std::size_t begin = 0; begin < count; begin += bucket) {
        const std::span<float> part = array.subspan(begin, std::min(bucket, count - begin));
        const bool late = begin == 0 && bucket == 100;
        gpu.compute.give([=, mine = contribution(staged->rank(), step, count)] {
          if (late) be_late(step % mpi_world().size());
          std::memcpy(part.data(), mine.data() + begin, part.size_bytes());
        });
        staged->start_allreduce_mean(part, gpu.compute);
      }
      staged->finish(gpu.compute);
      gpu.compute.give([&means, array, step] { means[step].assign(array.begin(), array.end()); });
    }
    gpu.compute.synchronize();
    for (int step = 0; step < steps; ++step) {
      ASSERT_TRUE(equal_bits(means[step], expected_mean(hosts_, step, count))) << bucket << ", step " << step;
    }
  }
}

TEST_P(StagedCommunicatorTest, BroadcastAndMeanTakeTheDevicesValuesBehindWorkUnderWay) {
  FakeGpu gpu(static_cast<unsigned>(mpi_world().rank()));
  const auto staged = staged_on(gpu);
  const Buffer buffer = gpu.allocate(100 * sizeof(float));
  const std::span<float> values{static_cast<float*>(buffer.data()), 100};
  gpu.compute.give([=] { std::fill(values.begin(), values.end(), static_cast<float>(mpi_world().rank())); });
  const int root = staged->size() - 1;
  staged->broadcast(values, root);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), std::vector<float>(100, static_cast<float>(root)));
  gpu.compute.give([=, mine = contribution(staged->rank(), 7, 100)] {
    std::memcpy(values.data(), mine.data(), values.size_bytes());
  });
  staged->mean(values);
  EXPECT_TRUE(equal_bits(values, expected_mean(hosts_, 7, 100)));
}

/// A batch norm over all ranks calls gather in this way, within a step.
TEST_P(StagedCommunicatorTest, GatherTakesEveryRanksSliceBehindWorkUnderWay) {
  const auto ranks = static_cast<std::size_t>(mpi_world().size()), rank = static_cast<std::size_t>(mpi_world().rank());
  constexpr std::size_t part = 32, count = 100;
  FakeGpu gpu(static_cast<unsigned>(rank));
  const auto staged = staged_on(gpu);
  const Buffer bucket_memory = staged->allocate(count * sizeof(float));
  const Buffer memory = gpu.allocate(part * ranks * sizeof(float));
  const std::span<float> bucket{static_cast<float*>(bucket_memory.data()), count};
  const std::span<float> all{static_cast<float*>(memory.data()), part * ranks};
  for (int step = 0; step < 4; ++step) {
    staged->acquire(gpu.compute);
    gpu.compute.give([=, mine = contribution(staged->rank(), step, count)] {
      std::memcpy(bucket.data(), mine.data(), bucket.size_bytes());
      std::fill(all.begin(), all.end(), -1.0f);
      std::copy_n(mine.begin(), part, all.begin() + static_cast<std::ptrdiff_t>(part * rank));
    });
    staged->start_allreduce_mean(bucket, gpu.compute);
    be_late(step % mpi_world().size());
    staged->all_gather(all, gpu.compute);
    for (std::size_t of = 0; of < ranks; ++of) {
      const std::vector<float> expected = contribution(static_cast<int>(of), step, part);
      EXPECT_TRUE(equal_bits(all.subspan(part * of, part), expected)) << "rank " << of << ", step " << step;
    }
    staged->finish(gpu.compute);
    gpu.compute.synchronize();
    EXPECT_TRUE(equal_bits(bucket, expected_mean(hosts_, step, count)));
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, StagedCommunicatorTest,
                         ::testing::Values("one host", "a host a rank", "two hosts", "one rank elsewhere",
                                           "ranks dealt out"));

}  // namespace
}  // namespace carillon::testing
