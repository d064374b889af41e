#include "carillon/comm/communicator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "carillon/core/cpu_device.h"
#include "src/comm/communicators.h"
#include "support/mpi_world.h"
#include "support/op_harness.h"

namespace carillon::testing {
namespace {

class CommunicatorTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    communicator_ =
        kind == "messages" ? make_message_communicator(device_) : make_shared_memory_communicator(mpi_world());
  }
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

TEST_P(CommunicatorTest, BroadcastBringsTheRootsValues) {
  std::vector<float> values(100, static_cast<float>(communicator_->rank()));
  const int root = communicator_->size() - 1;
  communicator_->broadcast(values, root);
  EXPECT_EQ(values, std::vector<float>(100, static_cast<float>(root)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorTest, ::testing::Values("messages", "shared memory"));

TEST(Communicator, OneRankTakesSelfAndRanksOfOneHostTakeSharedMemory) {
  CpuDevice device(1);
  const auto chosen = make_communicator(mpi_world(), device);
  EXPECT_EQ(chosen->name(), mpi_world().size() == 1 ? "self" : "mpi shared memory");
}

}  // namespace
}  // namespace carillon::testing
