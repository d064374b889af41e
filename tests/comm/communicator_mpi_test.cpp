#include "src/comm/allreduce/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "carillon/core/sum_in_order.h"
#include "src/comm/allreduce/communicators.h"
#include "src/comm/allreduce/side_work.h"
#include "src/comm/allreduce/staged_communicator.h"
#include "src/comm/transport/group.h"
#include "src/core/bf16.h"
#include "src/device/cpu_device.h"
#include "tests/comm/fake_gpu.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// CudaStagingCopies' order of work on a fake GPU, which makes progress while the host polls for the end of a download.
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

/// A made-up placement of the ranks: by rank, the host that it is taken to be on.
std::vector<int> hosts_of(const std::string& placement) {
  const int size = mpi_world().size();
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) {
    if (placement == "one host") hosts.push_back(0);
    if (placement == "a host a rank") hosts.push_back(rank);
    if (placement == "two hosts") hosts.push_back(rank < (size + 1) / 2 ? 0 : 1);
    if (placement == "one rank elsewhere") hosts.push_back(rank > 0 && rank == size - 1 ? 1 : 0);
    if (placement == "ranks dealt out") hosts.push_back(rank % 2);
  }
  return hosts;
}

class CommunicatorTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<int> hosts_ = hosts_of(GetParam());
  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_ = make_host_communicator(mpi_world(), hosts_);

  std::unique_ptr<Communicator> staged_on(FakeGpu& gpu, Averaging how = {}) const {
    return make_staged_communicator(
        {std::make_unique<CpuDevice>(1), make_host_communicator(mpi_world(), hosts_, {}, how)}, gpu,
        std::make_unique<FakeStagingCopies>(gpu));
  }
};

/// What rank `rank` contributes in step `step`.
std::vector<float> contribution(int rank, int step, std::size_t count) {
  return random_values(count, static_cast<std::uint64_t>(1000 * step + rank));
}

/// (host 0's ranks) + (host 1's ranks) + ..., then the factor: the documented result, bit for bit.
std::vector<float> expected_mean(const std::vector<int>& hosts, int step, std::size_t count) {
  std::vector<std::vector<float>> sums;
  for (int host = 0; host <= *std::max_element(hosts.begin(), hosts.end()); ++host) {
    std::vector<float> sum;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != host) continue;
      const std::vector<float> part = contribution(static_cast<int>(rank), step, count);
      if (sum.empty()) {
        sum = part;
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
      }
    }
    sums.push_back(sum);
  }
  for (std::size_t host = 1; host < sums.size(); ++host) {
    for (std::size_t i = 0; i < count; ++i) sums[0][i] += sums[host][i];
  }
  for (float& value : sums[0]) value *= 1.0f / static_cast<float>(hosts.size());
  return sums[0];
}

/// The sum of `parts` in the order of core/sum_in_order.h.
std::vector<float> tree_sum(const std::vector<std::vector<float>>& parts) {
  std::vector<const float*> places;
  for (const std::vector<float>& part : parts) places.push_back(part.data());
  std::vector<float> sum(parts.front().size());
  sum_in_order(places, sum.size(), 1.0f, sum.data(), SumOrder::tree);
  return sum;
}

/// Each host's ranks as a tree, then the hosts; divided by `divisor`.
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

bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
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

float rounded(float value) { return to_float(to_bf16(value)); }

/// The mean of a bucket of `count` between hosts that send bfloat16. The host that sums an element adds its own ranks'
/// exact sum and the rounded sums of the other hosts, in the hosts' order. All ranks get the rounded mean.
std::vector<float> expected_rounded_mean(const std::vector<int>& hosts, int step, std::size_t count) {
  const int host_count = *std::max_element(hosts.begin(), hosts.end()) + 1;
  if (host_count == 1) return expected_mean(hosts, step, count);
  std::ptrdiff_t slices = std::ssize(hosts);
  std::vector<std::vector<float>> sums;
  for (int host = 0; host < host_count; ++host) {
    slices = std::min(slices, std::count(hosts.begin(), hosts.end(), host));
    std::vector<float> sum;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != host) continue;
      const std::vector<float> part = contribution(static_cast<int>(rank), step, count);
      if (sum.empty()) sum.assign(count, -0.0f);
      for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
    }
    sums.push_back(sum);
  }
  std::vector<float> means(count);
  for (int owner = 0; owner < slices; ++owner) {
    const Slice slice = reduction_slice(count, owner, static_cast<int>(slices));
    for (int host = 0; host < host_count; ++host) {
      const Slice part = reduction_slice(slice.end - slice.begin, host, host_count);
      for (std::size_t i = slice.begin + part.begin; i < slice.begin + part.end; ++i) {
        float sum = -0.0f;
        for (int from = 0; from < host_count; ++from) sum += from == host ? sums[from][i] : rounded(sums[from][i]);
        means[i] = rounded(sum * (1.0f / static_cast<float>(hosts.size())));
      }
    }
  }
  return means;
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
      if (begin == bucket) be_late(late);  // within the buckets
      std::memcpy(array.data() + begin, mine.data() + begin, bucket * sizeof(float));
      communicator_->start_allreduce_mean(array.subspan(begin, bucket), stream);
    }
    if (step % 2 == 1) be_late((late + 1) % mpi_world().size());  // before it takes the means
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

TEST_P(CommunicatorTest, StagedMeansOfADeviceAreThoseOfTheHostBitForBit) {
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

TEST_P(CommunicatorTest, StagedMeansAreRoundedAsTheHostsUnlessTheyAreToBeExact) {
  constexpr std::size_t count = 1003, exact = 100;
  FakeGpu gpu(static_cast<unsigned>(mpi_world().rank()));
  const auto staged = staged_on(gpu, {.wire = Wire::bf16});
  const bool several = *std::max_element(hosts_.begin(), hosts_.end()) > 0;
  EXPECT_EQ(staged->rounds(), several);
  const Buffer buffer = staged->allocate((count + exact) * sizeof(float));
  const std::span<float> array{static_cast<float*>(buffer.data()), count + exact};
  for (int step = 0; step < 3; ++step) {
    staged->acquire(gpu.compute);
    gpu.compute.give([=, of_bucket = contribution(staged->rank(), step, count),
                      of_exact = contribution(staged->rank(), step, exact)] {
      std::ranges::copy(of_bucket, array.begin());
      std::ranges::copy(of_exact, array.begin() + count);
    });
    staged->start_allreduce_mean(array.first(count), gpu.compute);
    staged->start_exact_allreduce_mean(array.subspan(count), gpu.compute);
    staged->finish(gpu.compute);
    gpu.compute.synchronize();
    ASSERT_TRUE(equal_bits(array.first(count), expected_rounded_mean(hosts_, step, count))) << step;
    ASSERT_TRUE(equal_bits(array.subspan(count), expected_mean(hosts_, step, exact))) << step;
  }
}

TEST_P(CommunicatorTest, StagedBroadcastAndMeanTakeTheDevicesValuesBehindWorkUnderWay) {
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

/// Within a step, as a batch norm over all ranks does.
TEST_P(CommunicatorTest, StagedGatherTakesEveryRanksSliceBehindWorkUnderWay) {
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

TEST_P(CommunicatorTest, ARankThatNeverComesIsNamedWithinTheLimit) {
  const Mpi& mpi = mpi_world();
  const int last = mpi.size() - 1;
  if (last == 0) return;  // nobody to wait for
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
      EXPECT_EQ(error.code(), ExitCode::failed);
      const std::string what = error.what(), name = fmt::format("waited 0.2 s for rank {} in ", last);
      if (hosts_ == std::vector{0, 0, 1, 1} && mpi.rank() == 0) {
        EXPECT_EQ(what, "waited 0.2 s for rank 2 in a reduce-scatter");  // which waits for rank 3
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
  if (last == 0) return;  // nobody to send to
  CpuDevice device(1);
  const auto limited = make_host_communicator(mpi, hosts_of("a host a rank"), {.seconds = 0.2});
  const Buffer memory = limited->allocate(1000 * sizeof(float));
  limited->start_allreduce_mean({static_cast<float*>(memory.data()), 1000}, device.stream());
  mpi.barrier();
  if (mpi.rank() != last) {
    try {
      limited->finish(device.stream());
      ADD_FAILURE() << "did not wait";
    } catch (const Error& error) {  // the last rank sent its part, though it never gets to finish
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
