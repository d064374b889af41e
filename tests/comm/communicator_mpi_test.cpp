#include "src/comm/allreduce/communicators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "carillon/core/reduction.h"
#include "src/device/cpu_device.h"
#include "tests/comm/fake_gpu.h"
#include "tests/comm/placed_ranks.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

class CommunicatorTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<int> hosts_ = hosts_of(GetParam());
  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_ = make_host_communicator(mpi_world(), hosts_);
};

/// Returns the elementwise sum of `parts`, added in the order SumOrder::tree (core/reduction.h).
std::vector<float> tree_sum(const std::vector<std::vector<float>>& parts) {
  std::vector<const float*> places;
  for (const std::vector<float>& part : parts) places.push_back(part.data());
  std::vector<float> sum(parts.front().size());
  sum_in_order(places, sum.size(), 1.0f, sum.data(), SumOrder::tree);
  return sum;
}

/// Adds the contributions of each host's ranks as a tree. Then adds the hosts' sums as a tree, and divides the result
/// by `divisor`.
std::vector<float> expected_tree_mean(const std::vector<int>& hosts, std::size_t count, std::int64_t divisor) {
  std::vector<std::vector<float>> sums;
  for (int host = 0; host <= *std::max_element(hosts.begin(), hosts.end()); ++host) {
    std::vector<std::vector<float>> parts;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] == host) parts.push_back(contribution(static_cast<int>(rank), 0, count));
    }
    sums.push_back(tree_sum(parts));
  }
  std::vector<float> mean = tree_sum(sums);
  for (float& value : mean) value *= 1.0f / static_cast<float>(divisor);
  return mean;
}

TEST_P(CommunicatorTest, MeanIsATreeWithADivisorOfItsOwnWhereThatIsAskedFor) {
  constexpr std::size_t count = 1003;
  constexpr std::int64_t divisor = 24;
  const auto communicator = make_host_communicator(mpi_world(), hosts_, {}, {SumOrder::tree, divisor});
  const Buffer memory = communicator->allocate(count * sizeof(float));
  const std::span<float> array{static_cast<float*>(memory.data()), count};
  const std::vector<float> mine = contribution(mpi_world().rank(), 0, count);
  const std::vector<float> expected = expected_tree_mean(hosts_, count, divisor);
  communicator->acquire(device_.stream());
  std::copy(mine.begin(), mine.end(), array.begin());
  communicator->start_allreduce_mean(array.first(500), device_.stream());
  communicator->start_allreduce_mean(array.subspan(500), device_.stream());
  communicator->finish(device_.stream());
  EXPECT_TRUE(equal_bits(array, expected));
}

TEST_P(CommunicatorTest, MeanIsTheSumInTheDocumentedOrderForAnyBucketsAndSteps) {
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
        communicator_->start_allreduce_mean(part, stream);
      }
      communicator_->finish(stream);
      ASSERT_TRUE(equal_bits(array, expected_mean(hosts_, step, count))) << bucket << ", " << repeat;
    }
  }
}

TEST_P(CommunicatorTest, AWireOfBf16RoundsWhatHostsSendAndNothingThatIsToBeExact) {
  constexpr std::size_t count = 1003, exact = 100;
  const auto communicator = make_host_communicator(mpi_world(), hosts_, {}, {.wire = Wire::bf16});
  const bool several = *std::max_element(hosts_.begin(), hosts_.end()) > 0;
  EXPECT_EQ(communicator->rounds(), several);
  EXPECT_EQ(communicator->name() == "mpi, bf16", several);
  const Buffer memory = communicator->allocate((count + exact) * sizeof(float));
  const std::span<float> array{static_cast<float*>(memory.data()), count + exact};
  for (int step = 0; step < 2 * mpi_world().size(); ++step) {
    be_late(step % mpi_world().size());
    communicator->acquire(device_.stream());
    std::ranges::copy(contribution(mpi_world().rank(), step, count), array.begin());
    std::ranges::copy(contribution(mpi_world().rank(), step, exact), array.begin() + count);
    communicator->start_allreduce_mean(array.first(count), device_.stream());
    communicator->start_exact_allreduce_mean(array.subspan(count), device_.stream());
    communicator->finish(device_.stream());
    ASSERT_TRUE(equal_bits(array.first(count), expected_rounded_mean(hosts_, step, count))) << step;
    ASSERT_TRUE(equal_bits(array.subspan(count), expected_mean(hosts_, step, exact))) << step;
  }
}

TEST_P(CommunicatorTest, ALateRanksGradientsAreWaitedForAndReadBeforeTheyChange) {
  constexpr std::size_t count = 300, bucket = 100;
  const Buffer memory = communicator_->allocate(count * sizeof(float));
  const std::span<float> array{static_cast<float*>(memory.data()), count};
  Stream& stream = device_.stream();
  for (int step = 0; step < 3 * mpi_world().size(); ++step) {
    const int late = step % mpi_world().size();
    communicator_->acquire(stream);
    const std::vector<float> mine = contribution(communicator_->rank(), step, count);
    for (std::size_t begin = 0; begin < count; begin += bucket) {
      if (begin == bucket) be_late(late);  // rank `late` pauses between two buckets
      std::memcpy(array.data() + begin, mine.data() + begin, bucket * sizeof(float));
      communicator_->start_allreduce_mean(array.subspan(begin, bucket), stream);
    }
    if (step % 2 == 1) be_late((late + 1) % mpi_world().size());  // the rank after `late` pauses before finish
    communicator_->finish(stream);
    ASSERT_TRUE(equal_bits(array, expected_mean(hosts_, step, count))) << "step " << step;
  }
}

TEST_P(CommunicatorTest, BroadcastBringsAnyRootsValues) {
  for (int root = 0; root < communicator_->size(); ++root) {
    be_late(root);
    std::vector<float> values(100000, static_cast<float>(communicator_->rank()));
    communicator_->broadcast(values, root);
    EXPECT_EQ(values, std::vector<float>(100000, static_cast<float>(root)));
  }
}

TEST_P(CommunicatorTest, MeanAtOnceIsThatOfTheStep) {
  for (const std::size_t count : {1, 2, 16, 17, 1003, 200001}) {
    for (int late = 0; late < communicator_->size(); ++late) {
      be_late(late);
      std::vector<float> values = contribution(communicator_->rank(), late, count);
      communicator_->mean(values);
      ASSERT_TRUE(equal_bits(values, expected_mean(hosts_, late, count))) << count;
    }
  }
}

TEST_P(CommunicatorTest, ARankThatNeverComesIsNamedWithinTheLimit) {
  const Mpi& mpi = mpi_world();
  const int last = mpi.size() - 1;
  if (last == 0) return;  // there is no other rank that is late
  const auto limited = make_host_communicator(mpi, hosts_, {.seconds = 0.2});
  const Buffer memory = limited->allocate(1000 * sizeof(float));
  if (mpi.rank() != last) {
    const auto start = std::chrono::steady_clock::now();
    try {
      limited->acquire(device_.stream());
      limited->start_allreduce_mean({static_cast<float*>(memory.data()), 1000}, device_.stream());
      limited->finish(device_.stream());
      ADD_FAILURE() << "did not wait";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::lost_rank);
      const std::string what = error.what(), name = fmt::format("waited 0.2 s for rank {} in ", last);
      if (hosts_ == std::vector{0, 0, 1, 1} && mpi.rank() == 0) {
        EXPECT_EQ(what, "waited 0.2 s for rank 2 in a reduce-scatter");  // rank 2 itself waits for rank 3
      } else if (hosts_[mpi.rank()] == hosts_[last]) {
        EXPECT_EQ(what, name + "averaging");
      } else if (std::string(GetParam()) != "ranks dealt out" && std::string(GetParam()) != "one rank elsewhere") {
        EXPECT_EQ(what, name + "a reduce-scatter");
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
  mpi.barrier();
}

INSTANTIATE_TEST_SUITE_P(Placements, CommunicatorTest,
                         ::testing::Values("one host", "a host a rank", "two hosts", "one rank elsewhere",
                                           "ranks dealt out"));

TEST(Communicator, ABucketIsUnderWayBetweenHostsAsSoonAsItHasClosed) {
  const Mpi& mpi = mpi_world();
  const int last = mpi.size() - 1;
  if (last == 0) return;  // there is no other rank
  CpuDevice device(1);
  const auto limited = make_host_communicator(mpi, hosts_of("a host a rank"), {.seconds = 0.2});
  const Buffer memory = limited->allocate(1000 * sizeof(float));
  limited->start_allreduce_mean({static_cast<float*>(memory.data()), 1000}, device.stream());
  mpi.barrier();
  if (mpi.rank() != last) {
    try {
      limited->finish(device.stream());
      ADD_FAILURE() << "did not wait";
    } catch (const Error& error) {  // expected: the last rank sends its part, but never calls finish
      EXPECT_EQ(error.what(), fmt::format("waited 0.2 s for rank {} in an all-gather", last));
    }
  }
  mpi.barrier();
}

TEST(Communicator, OneRankTakesSelfAndRanksOfOneHostTakeSharedMemory) {
  CpuDevice device(1);
  const auto chosen = make_communicator(mpi_world(), device);
  EXPECT_EQ(chosen->name(), mpi_world().size() == 1 ? "self" : "mpi shared memory");
}

TEST(Communicator, RanksOnCpusAndRanksOnGpusAreRefusedTogether) {
  const Mpi& mpi = mpi_world();
  if (mpi.size() == 1) return;  // there is no other rank that can differ
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
