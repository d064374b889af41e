// Tests that preflight checks the means in its averaging test.
#include "src/train/preflight/preflight.h"

#include <gmock/gmock.h>

#include "tests/support/without_shared_host_memory.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A communicator with wrong means: on the last rank, one element is slightly larger than the mean.
class WrongCommunicator final : public WithoutSharedHostMemory {
 public:
  WrongCommunicator(Device& device, std::size_t wrong_element)
      : WithoutSharedHostMemory(device), wrong_element_(wrong_element) {}
  Buffer allocate(std::size_t bytes) override {
    Buffer memory = WithoutSharedHostMemory::allocate(bytes);
    wrong_ = static_cast<float*>(memory.data()) + wrong_element_;
    return memory;
  }
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    const bool has_wrong = wrong_ >= bucket.data() && wrong_ < bucket.data() + bucket.size();
    if (has_wrong && rank() == size() - 1) *wrong_ += 0x1p-10f;
    WithoutSharedHostMemory::start_allreduce_mean(bucket, stream);
  }

 private:
  std::size_t wrong_element_;
  float* wrong_ = nullptr;
};

/// A communicator that declares that it rounds gradients. Its means omit the values of the last rank.
class LosingCommunicator final : public WithoutSharedHostMemory {
 public:
  using WithoutSharedHostMemory::WithoutSharedHostMemory;
  bool rounds() const override { return true; }
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    if (rank() == size() - 1) std::ranges::fill(bucket, 0.0f);
    WithoutSharedHostMemory::start_allreduce_mean(bucket, stream);
  }
};

class PreflightAveragingTest : public RunTest {
 protected:
  /// Runs preflight's averaging test with 1,000 gradients in buckets of 100. Returns the text that it reports.
  std::string text_with(Communicator& communicator) {
    return try_averaging({.network = "net", .gradients = 1000, .bucket_bytes = 400, .divisor = mpi_.size()}, mpi_,
                         device_, communicator);
  }
};

TEST_F(PreflightAveragingTest, ReportsThatTheMeansAreRight) {
  WithoutSharedHostMemory communicator(device_);
  EXPECT_THAT(text_with(communicator),
              HasSubstr(mpi_.size() > 1 ? "; the means are right\n" : "one rank has nothing to average"));
}

TEST_F(PreflightAveragingTest, EndsAllRanksIfAMeanIsWrong) {
  if (mpi_.size() == 1) return;  // a single rank averages nothing
  for (const std::size_t wrong_element : {0u, 500u, 999u}) {
    WrongCommunicator communicator(device_, wrong_element);
    const Failure failure = failure_of_run([&] { text_with(communicator); });
    EXPECT_EQ(failure.code, ExitCode::failed) << "element " << wrong_element;
    EXPECT_THAT(mpi_.all_gather(failure.text), Contains("preflight: averaging gives wrong means"));
  }
}

TEST_F(PreflightAveragingTest, FindsALostRankInSumsThatAreRounded) {
  if (mpi_.size() == 1) return;  // a single rank averages nothing
  LosingCommunicator communicator(device_);
  EXPECT_EQ(failure_of_run([&] { text_with(communicator); }).code, ExitCode::failed);
}

}  // namespace
}  // namespace carillon::testing
