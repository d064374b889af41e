#include "carillon/comm/communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "carillon/core/cpu_device.h"
#include "fake_gpu.h"
#include "src/comm/communicators.h"
#include "src/comm/side_work.h"
#include "src/comm/staged_communicator.h"
#include "support/mpi_world.h"
#include "support/op_harness.h"

namespace carillon::testing {
namespace {

/// CudaStagingCopies' order on a fake GPU, which goes on while the host looks whether a download is done.
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

std::unique_ptr<Communicator> host_communicator(const std::string& kind, Device& device) {
  return kind == "messages" ? make_message_communicator(device) : make_shared_memory_communicator(mpi_world());
}

class CommunicatorTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { communicator_ = host_communicator(GetParam(), device_); }
  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_;
};

/// What rank `rank` contributes in step `step`.
std::vector<float> contribution(int rank, int step, std::size_t count) {
  return random_values(count, static_cast<std::uint64_t>(1000 * step + rank));
}

/// Sum in rank order, then the factor: the documented result, bit for bit.
std::vector<float> expected_mean(int step, std::size_t count) {
  const int size = mpi_world().size();
  std::vector<float> sum = contribution(0, step, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> part = contribution(rank, step, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
  for (float& value : sum) value *= 1.0f / static_cast<float>(size);
  return sum;
}

TEST_P(CommunicatorTest, MeanIsTheSumInRankOrderForAnyBucketsAndSteps) {
  constexpr std::size_t count = 1003;
  const Buffer memory = communicator_->allocate(count * sizeof(float));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % tensor_alignment_bytes, 0u);
  const std::span<float> array{static_cast<float*>(memory.data()), count};
  Stream& stream = device_.stream();
  int step = 0;
  for (const std::size_t bucket : {count, std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{500}}) {
    for (int repeat = 0; repeat < 20; ++repeat, ++step) {
      communicator_->acquire(stream);
      const std::vector<float> mine = contribution(communicator_->rank(), step, count);
      for (std::size_t begin = 0; begin < count; begin += bucket) {
        const std::span<float> part = array.subspan(begin, std::min(bucket, count - begin));
        std::memcpy(part.data(), mine.data() + begin, part.size_bytes());
        communicator_->start_mean(part, stream);
      }
      communicator_->finish(stream);
      const std::vector<float> expected = expected_mean(step, count);
      ASSERT_EQ(std::memcmp(array.data(), expected.data(), count * sizeof(float)), 0) << bucket << ", " << repeat;
    }
  }
}

TEST_P(CommunicatorTest, AMeanWaitsForARankThatIsLate) {
  constexpr std::size_t count = 200000;  // too much for a message that is sent before it is asked for
  const Buffer memory = communicator_->allocate(count * sizeof(float));
  const std::span<float> array{static_cast<float*>(memory.data()), count};
  Stream& stream = device_.stream();
  for (int step = 0; step < 2 * communicator_->size(); ++step) {
    const bool late = step % communicator_->size() == communicator_->rank();
    communicator_->acquire(stream);
    const std::vector<float> mine = contribution(communicator_->rank(), step, count);
    for (const std::span<float> part : {array.first(count / 2), array.subspan(count / 2)}) {
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::memcpy(part.data(), mine.data() + (part.data() - array.data()), part.size_bytes());
      communicator_->start_mean(part, stream);
    }
    communicator_->finish(stream);
    const std::vector<float> expected = expected_mean(step, count);
    ASSERT_EQ(std::memcmp(array.data(), expected.data(), count * sizeof(float)), 0) << "step " << step;
  }
}

TEST_P(CommunicatorTest, BroadcastBringsTheRootsValues) {
  std::vector<float> values(100, static_cast<float>(communicator_->rank()));
  const int root = communicator_->size() - 1;
  communicator_->broadcast(values, root);
  EXPECT_EQ(values, std::vector<float>(100, static_cast<float>(root)));
}

TEST_P(CommunicatorTest, StagedMeansOfADeviceAreThoseOfTheHostBitForBit) {
  constexpr std::size_t count = 135;
  constexpr int steps = 12;
  for (const std::size_t bucket : {count, std::size_t{3}, std::size_t{16}, std::size_t{100}}) {
    FakeGpu gpu(static_cast<unsigned>(1000 * bucket + static_cast<std::size_t>(mpi_world().rank())));
    auto memory = std::make_unique<CpuDevice>(1);
    auto host = host_communicator(GetParam(), *memory);
    const auto staged =
        make_staged_communicator({std::move(memory), std::move(host)}, gpu, std::make_unique<FakeStagingCopies>(gpu));
    const Buffer buffer = staged->allocate(count * sizeof(float));
    const std::span<float> array{static_cast<float*>(buffer.data()), count};
    std::vector<std::vector<float>> means(steps);
    for (int step = 0; step < steps; ++step) {
      staged->acquire(gpu.compute);
      for (std::size_t begin = 0; begin < count; begin += bucket) {
        const std::span<float> part = array.subspan(begin, std::min(bucket, count - begin));
        gpu.compute.give([=, mine = contribution(staged->rank(), step, count)] {
          std::memcpy(part.data(), mine.data() + begin, part.size_bytes());
        });
        staged->start_mean(part, gpu.compute);
      }
      staged->finish(gpu.compute);
      gpu.compute.give([&means, array, step] { means[step].assign(array.begin(), array.end()); });
    }
    gpu.compute.synchronize();
    for (int step = 0; step < steps; ++step) {
      ASSERT_EQ(std::memcmp(means[step].data(), expected_mean(step, count).data(), count * sizeof(float)), 0)
          << bucket << ", step " << step;
    }
  }
}

TEST_P(CommunicatorTest, StagedBroadcastBringsTheRootsValuesBehindWorkUnderWay) {
  FakeGpu gpu(static_cast<unsigned>(mpi_world().rank()));
  auto memory = std::make_unique<CpuDevice>(1);
  auto host = host_communicator(GetParam(), *memory);
  const auto staged =
      make_staged_communicator({std::move(memory), std::move(host)}, gpu, std::make_unique<FakeStagingCopies>(gpu));
  const Buffer buffer = gpu.allocate(100 * sizeof(float));
  const std::span<float> values{static_cast<float*>(buffer.data()), 100};
  gpu.compute.give([=] { std::fill(values.begin(), values.end(), static_cast<float>(mpi_world().rank())); });
  const int root = staged->size() - 1;
  staged->broadcast(values, root);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), std::vector<float>(100, static_cast<float>(root)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorTest, ::testing::Values("messages", "shared memory"));

TEST(Communicator, OneRankTakesSelfAndRanksOfOneHostTakeSharedMemory) {
  CpuDevice device(1);
  const auto chosen = make_communicator(mpi_world(), device);
  EXPECT_EQ(chosen->name(), mpi_world().size() == 1 ? "self" : "mpi shared memory");
}

TEST(Communicator, RanksOnCpusAndRanksOnGpusAreRefusedTogether) {
  const Mpi& mpi = mpi_world();
  if (mpi.size() == 1) return;  // nobody to differ from
  CpuDevice cpu(1);
  FakeGpu gpu(0);
  Device& device = mpi.rank() == mpi.size() - 1 ? static_cast<Device&>(gpu) : cpu;
  if (mpi.rank() == 0) {
    EXPECT_THROW(make_communicator(mpi, device), SharedError);
  } else {
    EXPECT_THROW(make_communicator(mpi, device), PeerFailed);
  }
}

}  // namespace
}  // namespace carillon::testing
