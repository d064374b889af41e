// Tests a communicator that, like NCCL's communicator, returns sums over the towers in place of means. The update then
// divides the sums.
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"

namespace carillon::testing {
namespace {

/// A communicator of `size` towers. It behaves as if the gradients of the other towers were 0.
class SumCommunicator final : public Communicator {
 public:
  SumCommunicator(CudaDevice& device, int size) : device_(device), size_(size) {}
  std::string_view name() const override { return "sums"; }
  int rank() const override { return 0; }
  int size() const override { return size_; }
  Buffer allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void acquire(Stream& /*stream*/) override {}
  void start_allreduce_mean(std::span<float> /*bucket*/, Stream& /*stream*/) override {}
  float result_scale() const override { return 1.0f / static_cast<float>(size_); }
  void finish(Stream& /*stream*/) override {}
  void broadcast(std::span<float> /*values*/, int /*root*/) override {}
  void mean(std::span<float> /*values*/) override {}
  bool capturable() const override { return true; }

 private:
  CudaDevice& device_;
  int size_;
};

class LeftSumsTest : public GpuTest {
 protected:
  Trained trained(const Training& training, int size) {
    CudaDevice device(0);
    SumCommunicator communicator(device, size);
    return train(training, records_, device, communicator);
  }
  NoiseRecords records_{64, 784};
};

TEST_F(LeftSumsTest, AreMeansWhereTheyAreObservedAndInTheResults) {
  const Training training{.steps = 1, .observe_every = 1};
  const Trained whole = trained(training, 1), third = trained(training, 3);
  const float factor = 1.0f / 3.0f;
  for (std::size_t i = 0; i < whole.observed.at(0).size(); ++i) {
    ASSERT_EQ(third.observed.at(0)[i], whole.observed[0][i] * factor) << i;
  }
  EXPECT_EQ(third.results.at(0).loss, static_cast<float>(whole.results.at(0).loss) * factor);
}

/// An observed step computes the means before the update; other steps compute them in the update. The updated variables
/// of both kinds of steps must have equal bits. The test covers every update rule that has a separate pass over the
/// gradients.
TEST_F(LeftSumsTest, GiveTheSameUpdateWhetherObservedOrNot) {
  for (const std::string_view rule : {"sgd", "momentum", "adamw", "lars", "lamb", "muon"}) {
    SCOPED_TRACE(rule);
    Training training{.steps = 6, .learning_rate = 0.01f, .rule = std::string(rule)};
    if (rule == "muon") training.groups = {{.pattern = "*/weights", .muon = true}};
    const Trained apart = trained(training, 3);
    training.observe_every = 1;
    expect_equal(apart, trained(training, 3));
    EXPECT_FALSE(equal_bits(apart.values, trained(training, 1).values));
  }
}

}  // namespace
}  // namespace carillon::testing
