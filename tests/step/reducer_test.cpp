#include "src/step/gradients/reducer.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"

namespace carillon::testing {
namespace {

/// Records the calls in order, each as a text such as "acquire", "start 0 48" or "finish".
class RecordingCommunicator final : public Communicator {
 public:
  explicit RecordingCommunicator(Device& device) : device_(device) {}
  std::string_view name() const override { return "recording"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Buffer allocate(std::size_t bytes) override {
    Buffer buffer = device_.allocate(bytes);
    base_ = static_cast<float*>(buffer.data());
    return buffer;
  }
  void prepare(std::size_t largest_bucket) override { largest = largest_bucket; }
  void acquire(Stream&) override { calls.emplace_back("acquire"); }
  void start_allreduce_mean(std::span<float> bucket, Stream&) override {
    calls.push_back(fmt::format("start {} {}", bucket.data() - base_, bucket.size()));
  }
  void start_exact_allreduce_mean(std::span<float> bucket, Stream&) override {
    calls.push_back(fmt::format("start exactly {} {}", bucket.data() - base_, bucket.size()));
  }
  bool rounds() const override { return rounds_to_bf16; }
  void finish(Stream&) override { calls.emplace_back("finish"); }
  void broadcast(std::span<float>, int) override {}
  void mean(std::span<float>) override {}

  std::vector<std::string> calls;
  bool rounds_to_bf16 = false;
  std::size_t largest = 0;

 private:
  Device& device_;
  float* base_ = nullptr;
};

class ReducerTest : public ::testing::Test {
 protected:
  // The order of the gradients in memory is: third [0, 16), second [16, 32), first [32, 48), step sums [48, 64).
  const std::vector<ParameterSpec> specs_{
      {"first", {3, 5}, {}, 0.0f}, {"second", {7}, {}, 0.0f}, {"third", {16}, {}, 0}};
  CpuDevice device_{1};
  RecordingCommunicator communicator_{device_};
  ParameterStore store_{specs_, device_, {.gradients = communicator_.allocate((48 + step_sum_count) * sizeof(float))}};

  std::vector<std::string> calls_of_a_step(std::size_t bucket_bytes) {
    Reducer reducer(communicator_, store_, bucket_bytes);
    communicator_.calls.clear();
    reducer.begin(device_.stream());
    for (const int parameter : {2, 1, 0}) {
      communicator_.calls.push_back(fmt::format("complete {}", parameter));
      reducer.add(parameter, device_.stream());
    }
    reducer.finalize(device_.stream());
    return communicator_.calls;
  }
};

TEST(BucketBytes, GpusHaveLargeBucketsBetweenHostsTheLargest) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const std::vector<int> one_host{0, 0}, two_hosts{0, 1};
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cuda, 0), 8 * mib);
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cuda, 0, one_host), 8 * mib);
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cuda, 0, two_hosts), 25 * mib);
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cpu, 0, one_host), 4 * mib);
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cpu, 0, two_hosts), 4 * mib);
  EXPECT_EQ(bucket_bytes_on(DeviceKind::cuda, 1024, two_hosts), 1024);
}

TEST_F(ReducerTest, OneBucketStartsAfterTheLastGradientAndTakesTheStepSums) {
  EXPECT_EQ(calls_of_a_step(1 << 20),
            (std::vector<std::string>{"acquire", "complete 2", "complete 1", "complete 0", "start 0 64", "finish"}));
}

TEST_F(ReducerTest, SmallBucketsStartAsSoonAsTheyAreComplete) {
  EXPECT_EQ(calls_of_a_step(1), (std::vector<std::string>{"acquire", "complete 2", "start 0 16", "complete 1",
                                                          "start 16 16", "complete 0", "start 32 32", "finish"}));
}

TEST_F(ReducerTest, ABucketIsCompleteAtExactlyItsSize) {
  constexpr std::size_t third = 16 * sizeof(float);
  EXPECT_EQ(calls_of_a_step(third), calls_of_a_step(1));
  EXPECT_EQ(calls_of_a_step(third + 1), calls_of_a_step(2 * third));
  EXPECT_EQ(calls_of_a_step(2 * third), (std::vector<std::string>{"acquire", "complete 2", "complete 1", "start 0 32",
                                                                  "complete 0", "start 32 32", "finish"}));
}

TEST_F(ReducerTest, WhereGradientsAreRoundedTheStepSumsAreNot) {
  communicator_.rounds_to_bf16 = true;
  EXPECT_EQ(calls_of_a_step(1 << 20), (std::vector<std::string>{"acquire", "complete 2", "complete 1", "complete 0",
                                                                "start 0 48", "start exactly 48 16", "finish"}));
  EXPECT_EQ(calls_of_a_step(1),
            (std::vector<std::string>{"acquire", "complete 2", "start 0 16", "complete 1", "start 16 16", "complete 0",
                                      "start 32 16", "start exactly 48 16", "finish"}));
}

TEST_F(ReducerTest, PreparesTheCommunicatorForTheLargestBucket) {
  const auto largest = [&](std::size_t bucket_bytes) {
    Reducer(communicator_, store_, bucket_bytes);
    return communicator_.largest;
  };
  EXPECT_EQ(largest(1), 32u);  // the last bucket includes the step sums
  EXPECT_EQ(largest(1 << 20), 64u);
  communicator_.rounds_to_bf16 = true;  // in this mode, the step sums have their own bucket
  EXPECT_EQ(largest(1), 16u);
  EXPECT_EQ(largest(1 << 20), 48u);
}

TEST_F(ReducerTest, EveryElementIsInExactlyOneBucketAtAnySize) {
  const ParameterLayout layout(specs_);
  for (std::size_t bytes = 1; bytes < 300; ++bytes) {
    const std::vector<std::size_t> ends = bucket_ends(layout, bytes);
    ASSERT_EQ(ends.back(), layout.total() + step_sum_count) << bytes;
    for (std::size_t i = 1; i < ends.size(); ++i) ASSERT_LT(ends[i - 1], ends[i]) << bytes;
  }
}

TEST_F(ReducerTest, RefusesGradientsOutOfOrderAndMissingOnes) {
  Reducer reducer(communicator_, store_, 1);
  reducer.begin(device_.stream());
  EXPECT_THROW(reducer.add(0, device_.stream()), Error);
  reducer.add(2, device_.stream());
  EXPECT_THROW(reducer.finalize(device_.stream()), Error);
}

}  // namespace
}  // namespace carillon::testing
