#include "src/comm/allreduce/shared_host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <mutex>

#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "tests/comm/fake_gpu.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

class SharedHostMemoryTest : public ::testing::Test {
 protected:
  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_ = make_communicator(mpi_world(), device_);
  SharedHostMemory& memory_ = *communicator_->shared_host_memory();
};

std::vector<float> contribution(int rank, std::size_t count) {
  return random_values(count, static_cast<std::uint64_t>(rank));
}

/// Adds the contributions of all ranks in rank order, then multiplies each sum by the factor that makes it a mean.
std::vector<float> expected_means(std::size_t count) {
  const int size = mpi_world().size();
  std::vector<float> sums = contribution(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> part = contribution(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += part[i];
  }
  for (float& sum : sums) sum *= 1.0f / static_cast<float>(size);
  return sums;
}

TEST_F(SharedHostMemoryTest, IsOneArrayForAllTowersZeroedAndAligned) {
  constexpr std::size_t count = 10007;
  const Buffer buffer = memory_.allocate(count * sizeof(float));
  const std::span<float> array{static_cast<float*>(buffer.data()), count};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % tensor_alignment_bytes, 0u);
  EXPECT_TRUE(std::ranges::all_of(array, [](float x) { return x == 0.0f; }));
  memory_.meet();
  const Slice shard = memory_.shard(count);
  for (std::size_t i = shard.begin; i < shard.end; ++i) array[i] = static_cast<float>(i + 1);
  memory_.meet();
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(array[i], static_cast<float>(i + 1)) << "of another tower's shard";
}

TEST_F(SharedHostMemoryTest, NobodyLeavesAMeetingBeforeTheLastHasCome) {
  const Buffer buffer = memory_.allocate(64 * sizeof(float));
  float* const latest = static_cast<float*>(buffer.data());
  for (int late = 0; late < communicator_->size(); ++late) {
    be_late(late);
    if (communicator_->rank() == late) *latest = static_cast<float>(late + 1);
    memory_.meet();
    EXPECT_EQ(*latest, static_cast<float>(late + 1));
    memory_.meet();  // the next rank may write only after all ranks have read the value
  }
}

TEST_F(SharedHostMemoryTest, MeansAreTheSumsInRankOrderEachTakenOnceAtAnySizeAndThreadCount) {
  constexpr std::size_t total = 100003;
  const Buffer common = memory_.allocate(64), buffer = communicator_->allocate(total * sizeof(float));
  const std::span<float> own{static_cast<float*>(buffer.data()), total};
  std::ranges::copy(contribution(communicator_->rank(), total), own.begin());
  memory_.meet();
  const std::vector<float> expected = expected_means(total);
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1024},
                                    std::size_t{1025}, std::size_t{40000}, total - 5}) {
      std::vector<float> means(count);
      std::vector<int> taken(count);
      memory_.means_of(own.subspan(5, count), [&](std::size_t first, std::span<const float> block) {
        for (std::size_t i = 0; i < block.size(); ++i) {
          means[first + i] = block[i];
          ++taken[first + i];
        }
      });
      EXPECT_TRUE(std::ranges::all_of(taken, [](int times) { return times == 1; })) << count;
      EXPECT_TRUE(equal_bits(means, {expected.begin() + 5, expected.begin() + 5 + static_cast<std::ptrdiff_t>(count)}))
          << count << ", " << threads << " threads";
    }
  }
  omp_set_num_threads(1);
  memory_.meet();
}

TEST_F(SharedHostMemoryTest, GatheringBringsEveryOthersShardAndLeavesTheOwn) {
  constexpr std::size_t total = 100003;
  const Buffer common = memory_.allocate(64), buffer = communicator_->allocate(total * sizeof(float));
  const std::span<float> own{static_cast<float*>(buffer.data()), total};
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{40}, std::size_t{1003}, total - 6}) {
    std::ranges::fill(own, static_cast<float>(communicator_->rank()));
    memory_.meet();
    memory_.gather(own.subspan(5, count));
    for (int rank = 0; rank < communicator_->size(); ++rank) {
      const Slice shard = reduction_slice(count, rank, communicator_->size());
      const auto gathered = own.subspan(5 + shard.begin, shard.end - shard.begin);
      EXPECT_TRUE(std::ranges::all_of(gathered, [=](float x) { return x == static_cast<float>(rank); })) << count;
    }
    EXPECT_EQ(own[4], static_cast<float>(communicator_->rank()));
    EXPECT_EQ(own[5 + count], static_cast<float>(communicator_->rank()));
    memory_.meet();
  }
}

TEST_F(SharedHostMemoryTest, ARankThatNeverComesToMeetIsNamedWithinTheLimit) {
  const Mpi& mpi = mpi_world();
  const int last = mpi.size() - 1;
  const auto limited = make_host_communicator(mpi, mpi.hosts(), {.seconds = 0.2});
  SharedHostMemory& memory = *limited->shared_host_memory();
  const Buffer buffer = memory.allocate(64);
  if (mpi.size() == 1) {
    EXPECT_NO_THROW(memory.meet()) << "nobody to wait for";
  } else if (mpi.rank() != last) {
    try {
      memory.meet();
      ADD_FAILURE() << "did not wait";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::lost_rank);
      EXPECT_EQ(error.what(), fmt::format("waited 0.2 s for rank {} in a training step", last));
    }
  }
  mpi.barrier();
}

TEST(SharedHostMemory, IsNotWhereTowersAreOnSeveralHostsOrOnGpus) {
  const Mpi& mpi = mpi_world();
  if (mpi.size() > 1) {
    std::vector<int> hosts(static_cast<std::size_t>(mpi.size()), 0);
    hosts.back() = 1;
    EXPECT_EQ(make_host_communicator(mpi, hosts)->shared_host_memory(), nullptr);
  }
  FakeGpu gpu(0);
  EXPECT_EQ(make_self_communicator(gpu)->shared_host_memory(), nullptr);
}

}  // namespace
}  // namespace carillon::testing
