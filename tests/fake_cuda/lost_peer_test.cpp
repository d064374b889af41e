// Tests that every wait for the GPU's work ends the run if another tower is lost meanwhile.
#include <functional>
#include <optional>

#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "src/train/evaluation/evaluator.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

/// A communicator of two towers. In the third step, the other tower is lost: the means of this step never arrive, and
/// the communicator reports the loss.
class LosingCommunicator final : public Communicator {
 public:
  explicit LosingCommunicator(CudaDevice& device) : device_(device) {}
  std::string_view name() const override { return "losing"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Buffer allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void acquire(Stream& /*stream*/) override {}
  void start_allreduce_mean(std::span<float> /*bucket*/, Stream& /*stream*/) override {}
  void finish(Stream& stream) override {
    if (++steps_ == 3) stall_.emplace(as_cuda(stream).get());
  }
  void broadcast(std::span<float> /*values*/, int /*root*/) override {}
  void mean(std::span<float> /*values*/) override {}
  void check_peers() override {
    if (stall_) fail(ExitCode::failed, "a peer is lost");
  }

  void release() {
    if (stall_) stall_->release();
  }

 private:
  CudaDevice& device_;
  int steps_ = 0;
  std::optional<fake_cuda::Stall> stall_;
};

using LostPeerTest = GpuTest;

void take(Tower& tower, int step, bool reports_l2 = false) {
  const NoiseBatch samples(static_cast<std::uint64_t>(step), 8, 784);
  tower.step({.step = step, .batch = samples.batch(), .reports_l2 = reports_l2});
}

/// Runs four steps, then calls `wait`, which must throw an error.
void expect_failure_of(const std::function<void(Tower&)>& wait) {
  CudaDevice device(0);
  LosingCommunicator communicator(device);
  Tower tower(small_network(), ten_classes(),
              {.batch_size = 8, .optimizer = {.learning_rate = Schedule([](auto) { return 0.1; })}}, device,
              communicator);
  tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < 4; ++step) take(tower, step);
  try {
    wait(tower);
    ADD_FAILURE() << "the wait ended as if nothing had been";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a peer is lost");
  }
  communicator.release();  // a run would end here, but the test must still free its objects
}

/// The host logs every step and continues until the ring of steps is full.
TEST_F(LostPeerTest, EndsStepsThatAreLogged) {
  expect_failure_of([](Tower& tower) {
    for (int step = 4; step < 100; ++step) {
      take(tower, step, true);
      while (tower.next_result(Results::due)) continue;
    }
  });
}

TEST_F(LostPeerTest, EndsASave) {
  expect_failure_of([](Tower& tower) {
    CheckpointState state;
    tower.save(state);
  });
}

TEST_F(LostPeerTest, EndsTheWaitForAResult) {
  expect_failure_of([](Tower& tower) {
    while (tower.next_result(Results::all)) continue;
  });
}

TEST_F(LostPeerTest, EndsTheWaitForTheOutputsOfAnEvaluation) {
  CudaDevice device(0);
  Evaluator evaluator(small_network(), {.batch_size = 8}, device);
  const NoiseBatch samples(0, 8, 784);
  device.check_while_waiting([] { fail(ExitCode::failed, "a peer is lost"); });
  fake_cuda::Stall stall(device.compute_stream().get());
  EXPECT_THROW(evaluator.outputs(samples.batch()), Error);
  stall.release();
}

}  // namespace
}  // namespace carillon::testing
