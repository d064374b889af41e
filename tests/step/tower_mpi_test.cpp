#include "carillon/step/tower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/comm/communicators.h"
#include "src/device/cpu_device.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t global_batch = 48;

/// `count` images of noise with labels, a function of the position alone.
struct Samples {
  explicit Samples(std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::uint8_t>& image = storage.emplace_back();
      for (const float value : random_values(784, static_cast<std::uint64_t>(first + i), 0.0f, 255.0f)) {
        image.push_back(static_cast<std::uint8_t>(value));
      }
      labels.push_back(static_cast<std::int32_t>((first + i) % 10));
    }
    for (const auto& image : storage) images.push_back(image.data());
  }
  Batch batch() const { return {images, labels, {}, 0}; }
  std::vector<std::vector<std::uint8_t>> storage;
  std::vector<const std::uint8_t*> images;
  std::vector<std::int32_t> labels;
};

/// The result of a step on `samples`.
StepResult take_step(Tower& tower, const Samples& samples, double learning_rate, bool request_stop = false) {
  tower.step({.step = 0,
              .batch = samples.batch(),
              .update = {.learning_rate = learning_rate, .average_decay = 0.5},
              .request_stop = request_stop,
              .before_update = {}});
  return tower.take_result(true).value();
}

/// Variables after `steps` steps in which `towers` towers share the global batch; rank `rank` of them is this one.
std::vector<float> train(Communicator& communicator, int steps, std::size_t bucket_bytes) {
  CpuDevice device(1);
  const std::int64_t batch = global_batch / communicator.size();
  Tower tower(model_named("mnist"),
              {.model = {.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f},
               .batch_size = batch,
               .bucket_bytes = bucket_bytes},
              device, communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < steps; ++step) {
    const Samples samples(step * global_batch + communicator.rank() * batch, batch);
    take_step(tower, samples, 0.1);
  }
  const auto values = tower.parameters().values();
  return {values.begin(), values.end()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

TEST(Tower, ManyTowersEqualOneThatTakesTheWholeBatch) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto together = make_communicator(mpi, device);
  const std::vector<float> shared = train(*together, 5, std::size_t{4} << 20);

  const auto alone = make_self_communicator(device);
  const std::vector<float> single = train(*alone, 5, std::size_t{4} << 20);
  const std::vector<float> start = train(*alone, 0, std::size_t{4} << 20);
  EXPECT_GT(distance(single, start), 0.01);
  EXPECT_LT(distance(shared, single), 1e-4 * distance(single, start));
}

TEST(Tower, RunsAreEqualBitForBitWhateverTheBuckets) {
  CpuDevice device(1);
  std::vector<float> first;
  for (const std::size_t bucket_bytes : {std::size_t{4} << 20, std::size_t{4} << 20, std::size_t{1}}) {
    const auto communicator = make_communicator(mpi_world(), device);
    const std::vector<float> values = train(*communicator, 3, bucket_bytes);
    if (first.empty()) first = values;
    EXPECT_EQ(std::memcmp(first.data(), values.data(), first.size() * sizeof(float)), 0);
  }
  for (const std::string& text : mpi_world().all_gather({reinterpret_cast<const char*>(first.data()), 4096})) {
    EXPECT_EQ(std::memcmp(text.data(), first.data(), 4096), 0) << "towers differ";
  }
}

TEST(Tower, OneTowersBadLossIsSeenByAllAndChangesNothing) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  Tower tower(model_named("mnist"), {.batch_size = 2}, device, *communicator);
  tower.initialize(1);
  const std::vector<float> before(tower.parameters().values().begin(), tower.parameters().values().end());
  if (mpi.rank() == mpi.size() - 1) tower.parameters().value(3).floats()[0] = NAN;  // a bias of layer2
  const Samples samples(0, 2);
  const StepResult result = take_step(tower, samples, 0.1);
  EXPECT_TRUE(std::isnan(result.cross_entropy));
  if (mpi.rank() != mpi.size() - 1) {
    EXPECT_EQ(std::memcmp(before.data(), tower.parameters().values().data(), before.size() * sizeof(float)), 0);
  }
}

TEST(Tower, AStopAskedOfOneRankIsKnownToAll) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  Tower tower(model_named("mnist"), {.batch_size = 2}, device, *communicator);
  tower.initialize(1);
  const Samples samples(0, 2);
  EXPECT_FALSE(take_step(tower, samples, 1e-6).stop_requested);
  EXPECT_TRUE(take_step(tower, samples, 1e-6, mpi.rank() == mpi.size() - 1).stop_requested);
}

}  // namespace
}  // namespace carillon::testing
