// Tests several ranks whose towers share one GPU, as in runs with more ranks than GPUs.
#include "src/step/tower.h"

#include <gmock/gmock.h>

#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "src/tasks/classification_metric.h"
#include "src/train/evaluation/evaluator.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class TowersOnAGpu : public GpuTest {
 protected:
  static const NoiseRecords& records() {
    static const NoiseRecords instance(97, 784);
    return instance;
  }
  static Trained on_cpu(const Training& training) {
    CpuDevice device(1);
    const auto communicator = make_communicator(mpi_world(), device);
    return train(training, records(), device, *communicator);
  }
  /// Trains a tower on the GPU. The fake GPUs of the ranks run independent work in different orders.
  static Trained on_gpu(const Training& training, std::uint64_t seed = 1, std::string_view choice = "auto") {
    set_conditions({.seed = 10 * seed + static_cast<std::uint64_t>(mpi_world().rank())});
    CudaDevice device(0);
    const auto communicator = make_communicator(mpi_world(), device, choice);
    return train(training, records(), device, *communicator);
  }
};

TEST_F(TowersOnAGpu, AverageThroughTheHost) {
  CudaDevice device(0);
  const auto communicator = make_communicator(mpi_world(), device);
  if (mpi_world().size() == 1) {
    EXPECT_EQ(communicator->name(), "self");
  } else {
    EXPECT_THAT(std::string(communicator->name()), ::testing::HasSubstr("staged"));
  }
}

TEST_F(TowersOnAGpu, TrainAsTowersOnCpus) {
  const Training training{.batch_size = 4, .steps = 40};
  const Trained cpu = on_cpu(training), start = on_cpu({.batch_size = 4, .steps = 0}), gpu = on_gpu(training);
  EXPECT_LT(distance(cpu.values, gpu.values), 1e-4 * distance(cpu.values, start.values));
  ASSERT_EQ(cpu.results.size(), gpu.results.size());
  for (std::size_t i = 0; i < cpu.results.size(); ++i) {
    EXPECT_NEAR(cpu.results[i].loss, gpu.results[i].loss, 1e-4);
  }
}

TEST_F(TowersOnAGpu, AreEqualForAnyOrderOfWorkAndAnyBuckets) {
  Training training{.batch_size = 4, .steps = 40};
  const Trained first = on_gpu(training);
  training.bucket_bytes = 1;
  expect_equal(first, on_gpu(training, 2));
  training.bucket_bytes = Training{}.bucket_bytes;
  training.resident = &records().dataset();
  expect_equal(first, on_gpu(training, 3, "mpi"));
  const std::string mine(reinterpret_cast<const char*>(first.values.data()), first.values.size() * sizeof(float));
  for (const std::string& theirs : mpi_world().all_gather(mine)) EXPECT_TRUE(theirs == mine) << "towers differ";
}

TEST_F(TowersOnAGpu, KnowOfAPauseThatOneAsksFor) {
  const bool asked = mpi_world().rank() == mpi_world().size() - 1;
  const Trained trained = on_gpu({.batch_size = 4, .steps = 40, .sync_at = asked ? 21 : -1});
  for (int step = 0; step < 40; ++step) EXPECT_EQ(trained.results.at(step).sync_requested, step == 21) << step;
}

TEST_F(TowersOnAGpu, KnowOfABadLossOfOne) {
  const Trained trained = on_gpu({.batch_size = 4, .steps = 40, .explode_at = 21});
  for (int step = 0; step < 40; ++step) {
    EXPECT_EQ(std::isfinite(trained.results.at(step).loss), step <= 21) << step;
  }
}

TEST_F(TowersOnAGpu, UseNcclWithAGpuEach) {
  if (mpi_world().size() > 1) {  // NCCL does not support ranks that share a GPU
    EXPECT_ANY_THROW(on_gpu({.steps = 1}, 1, "nccl"));
    return;
  }
  const Trained plain = on_gpu({.steps = 100});
  const auto before = graph_launches();
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{4} << 20}) {
    expect_equal(plain, on_gpu({.steps = 100, .bucket_bytes = bucket_bytes}, 4, "nccl"));
  }
  if (before) {
    EXPECT_GT(graph_launches(), before) << "averaging beside the backward is captured";
  }
}

TEST_F(TowersOnAGpu, EvaluateAsOnTheCpu) {
  const auto evaluate = [](Device& device) {
    const auto communicator = make_communicator(mpi_world(), device);
    Tower tower(small_network(), ten_classes(), {.batch_size = 4}, device, *communicator);
    if (communicator->rank() == 0) tower.initialize(1);
    tower.broadcast_from_first();
    Evaluator evaluator(small_network(), {.batch_size = 16}, device);
    evaluator.load_averages(tower.moving_averages(), tower.buffers());
    const auto metric =
        evaluator.evaluate([] { return std::make_unique<ClassificationMetric>(10); }, records().dataset(), mpi_world());
    return dynamic_cast<const ClassificationMetric&>(*metric).accuracy();
  };
  CpuDevice cpu(1);
  CudaDevice gpu(0);
  const Accuracy expected = evaluate(cpu), got = evaluate(gpu);
  EXPECT_EQ(got.total, 97);
  EXPECT_EQ(got.correct, expected.correct);
}

}  // namespace
}  // namespace carillon::testing
