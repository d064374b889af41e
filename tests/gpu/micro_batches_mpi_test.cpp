// Tests micro-batches on a GPU, with 1, 2 and 4 ranks that share it.
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "src/step/tower.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t samples = 3, micro_batches = 8;  // samples per micro-batch; micro-batches per step, over all
                                                        // ranks

class MicroBatchesOnAGpu : public GpuTest {
 protected:
  static const NoiseRecords& records() {
    static const NoiseRecords instance(97, 784);
    return instance;
  }
  static Training normalized(int steps) {
    return {.network = normalized_network(), .steps = steps, .learning_rate = 0.02f, .rule = "nesterov"};
  }
  static Training divided(Training training, int ranks) {
    training.micro_batch = samples;
    training.batch_size = samples * micro_batches / ranks;
    return training;
  }
  static Trained alone(const Training& training, Device& device) {
    return train(divided(training, 1), records(), device, *make_self_communicator(device));
  }
  static Trained alone_on_cpu(const Training& training) {
    CpuDevice device(1);
    return alone(training, device);
  }
  static Trained alone_on_gpu(const Training& training, const GpuConditions& conditions = {}) {
    set_conditions(conditions);
    CudaDevice device(0);
    return alone(training, device);
  }
  static Trained together(const Training& training) {
    set_conditions({.seed = 10 + static_cast<std::uint64_t>(mpi_world().rank())});
    CudaDevice device(0);
    const int ranks = mpi_world().size();
    const Averaging averaging{.order = SumOrder::tree, .divisor = micro_batches};
    return train(divided(training, ranks), records(), device,
                 *make_communicator(mpi_world(), device, "auto", {}, averaging));
  }
  static void expect_near_the_cpu(const Training& training) {
    Training nothing = training;
    nothing.steps = 0;
    const Trained cpu = alone_on_cpu(training), start = alone_on_cpu(nothing), gpu = together(training);
    EXPECT_LT(distance(cpu.values, gpu.values), 1e-3 * distance(cpu.values, start.values));
    EXPECT_LT(distance(cpu.averages, gpu.averages), 1e-3 * distance(cpu.values, start.values));
    EXPECT_LE(distance(cpu.buffers, gpu.buffers), 1e-3 * distance(cpu.buffers, start.buffers));
    ASSERT_EQ(cpu.results.size(), gpu.results.size());
    for (std::size_t i = 0; i < cpu.results.size(); ++i) {
      EXPECT_NEAR(cpu.results[i].loss, gpu.results[i].loss, 1e-3 * cpu.results[i].loss) << "step " << i;
    }
  }
};

TEST_F(MicroBatchesOnAGpu, GiveTheSameBitsAtAnyNumberOfRanks) {
  for (const int observe_every : {0, 3}) {
    Training training = normalized(7);
    training.observe_every = observe_every;
    const Trained expected = alone_on_gpu(training), found = together(training);
    expect_equal(found, expected);
    ASSERT_EQ(found.observed.size(), expected.observed.size());
    for (std::size_t i = 0; i < found.observed.size(); ++i) {
      EXPECT_TRUE(equal_bits(found.observed[i], expected.observed[i])) << "observation " << i;
    }
  }
}

TEST_F(MicroBatchesOnAGpu, GiveTheSameBitsWithALookahead) {
  Training training = normalized(7);
  training.lookahead = {.every = 3, .decay = 0.8};
  const Trained expected = alone_on_gpu(training);
  expect_equal(together(training), expected);
  EXPECT_FALSE(equal_bits(expected.buffers, alone_on_gpu(normalized(7)).buffers));
}

TEST_F(MicroBatchesOnAGpu, TrainAsOnTheCpu) { expect_near_the_cpu(normalized(12)); }

/// Mixup draws the weights of the images by stream positions. The positions must not depend on the division into
/// micro-batches.
TEST_F(MicroBatchesOnAGpu, TrainAsOnTheCpuIfTheirSamplesAreMixed) {
  Training training = normalized(12);
  training.network = mixed_network();
  expect_near_the_cpu(training);
}

TEST_F(MicroBatchesOnAGpu, GiveTheSameBitsIfTheStepIsCaptured) {
  Training training = normalized(40);
  training.capture = false;
  const Trained eager = alone_on_gpu(training);
  training.capture = true;
  const auto before = graph_launches();
  expect_equal(alone_on_gpu(training, {.seed = 3}), eager);
  if (before) {
    EXPECT_GT(graph_launches(), before);
  }
}

TEST_F(MicroBatchesOnAGpu, GiveTheSameBitsIfTheGpuKeepsTheDataset) {
  Training training{.steps = 40};
  const Trained copied = alone_on_gpu(training);
  training.resident = &records().dataset();
  expect_equal(alone_on_gpu(training, {.seed = 2}), copied);
}

TEST_F(MicroBatchesOnAGpu, LetAllRanksKnowOfARequestOfOne) {
  Training training{.steps = 20};
  training.sync_at = mpi_world().rank() == mpi_world().size() - 1 ? 11 : -1;
  const Trained trained = together(training);
  for (int step = 0; step < 20; ++step) EXPECT_EQ(trained.results.at(step).sync_requested, step == 11) << step;
}

TEST_F(MicroBatchesOnAGpu, NeedTheActivationsOfOneOnly) {
  CudaDevice device(0);
  const auto communicator = make_self_communicator(device);
  const auto bytes = [&](std::int64_t batch, std::int64_t micro_batch) {
    const Tower tower(normalized_network(), ten_classes(), {.batch_size = batch, .micro_batch = micro_batch}, device,
                      *communicator);
    return tower.activation_bytes();
  };
  EXPECT_EQ(bytes(samples * micro_batches, samples), bytes(samples, 0));
}

}  // namespace
}  // namespace carillon::testing
