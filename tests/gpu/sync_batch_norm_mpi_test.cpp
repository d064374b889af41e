// Tests --sync-batch-norm on a GPU, with 1, 2 and 4 ranks that share it.
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_device.h"
#include "src/step/tower.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t global_batch = 16;

class SyncBatchNormOnAGpu : public GpuTest {
 protected:
  static const NoiseRecords& records() {
    static const NoiseRecords instance(97, 784);
    return instance;
  }
  static Training synchronized(Network network, int steps) {
    network.sync_batch_norm = true;
    Training training{.network = std::move(network), .steps = steps, .learning_rate = 0.02f, .rule = "nesterov"};
    training.batch_size = global_batch / mpi_world().size();
    return training;
  }
  static Trained on_cpus(const Training& training) {
    CpuDevice device(1);
    return train(training, records(), device, *make_communicator(mpi_world(), device));
  }
  static Trained on_gpu(const Training& training, std::uint64_t seed = 1) {
    set_conditions({.seed = 10 * seed + static_cast<std::uint64_t>(mpi_world().rank())});
    CudaDevice device(0);
    return train(training, records(), device, *make_communicator(mpi_world(), device));
  }
  /// Trains on this rank alone, with the global batch and without --sync-batch-norm.
  static Trained alone(Training training) {
    training.network.sync_batch_norm = false;
    training.batch_size = global_batch;
    CudaDevice device(0);
    return train(training, records(), device, *make_self_communicator(device));
  }
  static void expect_near(const Trained& found, const Trained& expected, const Trained& start) {
    const double travelled = distance(expected.values, start.values);
    EXPECT_LT(distance(found.values, expected.values), 1e-3 * travelled);
    EXPECT_LT(distance(found.averages, expected.averages), 1e-3 * travelled);
    EXPECT_LT(distance(found.buffers, expected.buffers), 1e-4 * distance(expected.buffers, start.buffers));
  }
  static std::string bytes_of(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

TEST_F(SyncBatchNormOnAGpu, MakesRanksEqualOneWithTheWholeBatch) {
  for (const Network& network : {normalized_network(), residual_network()}) {
    SCOPED_TRACE(network.name);
    const Training training = synchronized(network, 8);
    Training nothing = training, unsynchronized = training;
    nothing.steps = 0;
    unsynchronized.network.sync_batch_norm = false;
    const Trained expected = alone(training), start = alone(nothing);
    expect_near(on_gpu(training), expected, start);
    if (mpi_world().size() == 1) continue;
    EXPECT_GT(distance(on_gpu(unsynchronized).values, expected.values), 1e-2 * distance(expected.values, start.values));
  }
}

TEST_F(SyncBatchNormOnAGpu, TrainsAsOnCpus) {
  for (const Network& network : {normalized_network(), residual_network()}) {
    SCOPED_TRACE(network.name);
    const Training training = synchronized(network, 8);
    Training nothing = training;
    nothing.steps = 0;
    const Trained expected = on_cpus(training), found = on_gpu(training);
    expect_near(found, expected, on_cpus(nothing));
    ASSERT_EQ(found.results.size(), expected.results.size());
    for (std::size_t i = 0; i < found.results.size(); ++i) {
      EXPECT_NEAR(found.results[i].loss, expected.results[i].loss, 1e-3 * expected.results[i].loss) << "step " << i;
    }
  }
}

TEST_F(SyncBatchNormOnAGpu, GivesTheSameBitsInEveryRunAndOnEveryRank) {
  Training training = synchronized(residual_network(), 8);
  training.bucket_bytes = 1024;
  const Trained first = on_gpu(training);
  expect_equal(on_gpu(training, 2), first);
  for (const std::string& values : mpi_world().all_gather(bytes_of(first.values))) {
    EXPECT_TRUE(values == bytes_of(first.values)) << "variables differ";
  }
  for (const std::string& buffers : mpi_world().all_gather(bytes_of(first.buffers))) {
    EXPECT_TRUE(buffers == bytes_of(first.buffers)) << "moving statistics differ";
  }
}

TEST_F(SyncBatchNormOnAGpu, TrainsInBf16) {
  Training training = synchronized(residual_network(), 4);
  training.arithmetic = Arithmetic::bf16;
  Training nothing = training;
  nothing.steps = 0;
  const Trained expected = alone(training), start = alone(nothing), found = on_gpu(training);
  EXPECT_LT(distance(found.values, expected.values), 0.05 * distance(expected.values, start.values));
  EXPECT_LT(distance(found.buffers, expected.buffers), 0.01 * distance(expected.buffers, start.buffers));
}

TEST_F(SyncBatchNormOnAGpu, ChangesNothingIfTheNormsAreFrozen) {
  Training training = synchronized(residual_network(), 4);
  training.network.freeze_batch_norm = true;
  const Trained synchronized_norms = on_gpu(training);
  training.network.sync_batch_norm = false;
  expect_equal(synchronized_norms, on_gpu(training));
}

}  // namespace
}  // namespace carillon::testing
