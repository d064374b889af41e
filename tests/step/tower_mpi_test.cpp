#include "src/step/tower.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t global_batch = 48;

/// Initialises every rank's tower with the values of rank 0's tower.
void begin(Tower& tower) {
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
}

/// Runs a step with `samples` and returns its result.
StepResult take_step(Tower& tower, const NoiseBatch& samples, bool request_sync = false) {
  tower.step({.step = 0, .batch = samples.batch(), .request_sync = request_sync});
  return tower.next_result(Results::all).value();
}

Network mnist() { return mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})); }

TowerSettings settings_of(std::int64_t batch_size, double learning_rate) {
  return {.batch_size = batch_size,
          .optimizer = {.learning_rate = constant_rate(learning_rate), .moving_average_decay = 0.5}};
}

struct Training {
  int steps = 5;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  std::function<void()> before_update = {};
};

/// Returns the variables after a training in which each tower of the communicator has an equal part of the global
/// batch.
std::vector<float> train(Communicator& communicator, const Training& training) {
  CpuDevice device(1);
  const std::int64_t batch = global_batch / communicator.size();
  TowerSettings settings = settings_of(batch, 0.1);
  settings.bucket_bytes = training.bucket_bytes;
  Tower tower(mnist(), ten_classes(), settings, device, communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < training.steps; ++step) {
    const std::int64_t first = step * global_batch + communicator.rank() * batch;
    const NoiseBatch samples(static_cast<std::uint64_t>(first), static_cast<std::size_t>(batch), 784);
    tower.step({.step = 0, .batch = samples.batch(), .before_update = training.before_update});
  }
  const auto values = tower.parameters().values();
  return {values.begin(), values.end()};
}

TEST(Tower, ManyTowersEqualOneThatTakesTheWholeBatch) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto together = make_communicator(mpi, device);
  const std::vector<float> shared = train(*together, {});

  const auto alone = make_self_communicator(device);
  const std::vector<float> single = train(*alone, {});
  const std::vector<float> start = train(*alone, {.steps = 0});
  EXPECT_GT(distance(single, start), 0.01);
  EXPECT_LT(distance(shared, single), 1e-4 * distance(single, start));
}

TEST(Tower, RunsAreEqualBitForBitForAnyBuckets) {
  CpuDevice device(1);
  std::vector<float> first;
  for (const std::size_t bucket_bytes : {std::size_t{4} << 20, std::size_t{4} << 20, std::size_t{1}}) {
    // If all ranks are on one host, a step averages by buckets only in two cases: there is no shared host memory, or
    // before_update is set.
    WithoutSharedHostMemory without(device);
    const std::vector<float> plain = train(without, {.steps = 3, .bucket_bytes = bucket_bytes});
    const auto communicator = make_communicator(mpi_world(), device);
    const std::vector<float> observed =
        train(*communicator, {.steps = 3, .bucket_bytes = bucket_bytes, .before_update = [] {}});
    if (first.empty()) first = plain;
    EXPECT_TRUE(equal_bits(plain, first)) << bucket_bytes;
    EXPECT_TRUE(equal_bits(observed, first)) << bucket_bytes << ", observed";
  }
  for (const std::string& text : mpi_world().all_gather({reinterpret_cast<const char*>(first.data()), 4096})) {
    EXPECT_EQ(std::memcmp(text.data(), first.data(), 4096), 0) << "towers differ";
  }
}

/// An op that counts the training batches in a buffer. A step does not average buffers, so the counts can differ
/// between ranks.
class CountBatches final : public OpDefinition {
 public:
  std::string_view type() const override { return "count_batches"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    struct Count final : Op {
      Count(bool trains, const OpTensors& given) : training(trains), buffers(given.buffers) {}
      void forward(Stream&) override {
        if (!training) return;
        for (const Tensor& state : buffers) state.floats()[0] += static_cast<float>(mpi_world().rank() + 1);
      }
      void backward(Stream&) override {}
      bool training;
      std::vector<Tensor> buffers;
    };
    return std::make_unique<Count>(context.training, tensors);
  }
};

Value count_batches(Graph& graph, const std::string& name, Value x) {
  static constexpr OpType type = op_type<count_batches>("count_batches");
  const int of_first = graph.add_buffer({.name = name + "/first", .shape = {1}, .initial_value = 1.0f});
  const int mean = graph.add_buffer(
      {.name = name + "/mean", .shape = {1}, .initial_value = 1.0f, .across_ranks = AcrossRanks::mean});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<CountBatches>(),
                       .inputs = {x},
                       .buffers = {of_first, mean},
                       .type = &type},
                      graph.shape(x));
}

Network counting_network() {
  return make_network("counting", {.image = {28, 28, 1}}, [](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = dense(graph, "first", x, {.units = 4});
    x = count_batches(graph, "count", x);
    return dense(graph, "second", x, {.units = 10});
  });
}

TEST(Tower, StatesAreOfTheirRankUntilTheyAreJoinedAndAreSavedAndRestored) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  Tower tower(counting_network(), ten_classes(), settings_of(2, 0.01), device, *communicator);
  begin(tower);
  for (int step = 0; step < 3; ++step) take_step(tower, NoiseBatch(0, 2, 784));
  const auto state = [](const Tower& of, int i) { return of.buffers().tensor(i).floats()[0]; };
  EXPECT_EQ(state(tower, 0), 1.0f + 3.0f * static_cast<float>(mpi.rank() + 1));
  tower.synchronize_buffers();
  const float mean_rank = 0.5f * static_cast<float>(mpi.size() + 1);
  EXPECT_EQ(state(tower, 0), 4.0f) << "rank 0's";
  EXPECT_FLOAT_EQ(state(tower, 1), 1.0f + 3.0f * mean_rank);

  LoadedCheckpoint saved;
  tower.save(saved.state);
  const auto of_other = make_communicator(mpi, device);
  Tower other(counting_network(), ten_classes(), settings_of(2, 0.01), device, *of_other);
  if (mpi.rank() == 0) other.restore(saved);
  other.broadcast_from_first();
  EXPECT_EQ(state(other, 0), 4.0f);
  EXPECT_EQ(state(other, 1), state(tower, 1));
}

TEST(Tower, StatesOfARankReturnAfterASaveAtAnArbitraryTime) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  Tower tower(counting_network(), ten_classes(), settings_of(2, 0.01), device, *communicator);
  begin(tower);
  take_step(tower, NoiseBatch(0, 2, 784));
  const auto values = [&] {
    const std::span<const float> all = tower.buffers().values();
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<float> before = values();
  const Tower::RankBuffers own = tower.rank_buffers();
  tower.synchronize_buffers();
  EXPECT_EQ(equal_bits(before, values()), mpi.size() == 1);
  tower.restore(own);
  EXPECT_TRUE(equal_bits(before, values()));
  tower.synchronize_buffers();  // averages again, because the buffers have changed since the last call
  EXPECT_EQ(equal_bits(before, values()), mpi.size() == 1);
}

/// A tower that restores saved slots must continue like the tower that saved them. A tower with another optimiser must
/// reject them.
TEST(Tower, SlotsAreSavedAndRestored) {
  CpuDevice device(1);
  TowerSettings settings = settings_of(2, 0.01);
  settings.optimizer.rule = "momentum";
  const auto communicator = make_communicator(mpi_world(), device), of_other = make_communicator(mpi_world(), device);
  Tower tower(mnist(), ten_classes(), settings, device, *communicator),
      other(mnist(), ten_classes(), settings, device, *of_other);
  begin(tower);
  take_step(tower, NoiseBatch(0, 2, 784));
  LoadedCheckpoint saved;
  tower.save(saved.state);
  ASSERT_EQ(saved.state.optimizer.count("momentum"), 1u);
  if (mpi_world().rank() == 0) other.restore(saved);
  other.broadcast_from_first();
  take_step(tower, NoiseBatch(2, 2, 784));
  take_step(other, NoiseBatch(2, 2, 784));
  const auto values = [](const Tower& of) {
    return std::vector<float>(of.parameters().values().begin(), of.parameters().values().end());
  };
  EXPECT_TRUE(equal_bits(values(tower), values(other)));
}

bool equal_values(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b) {
  return std::ranges::equal(a, b, {}, &NamedArray::values, &NamedArray::values);
}

/// If there are no moving averages, sgd has no slots.
TEST(Tower, WithoutAveragesTrainsTheSameVariablesAndSavesThemInPlaceOfAverages) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  for (const char* const rule : {"sgd", "momentum"}) {
    CheckpointState with, without;
    for (const double decay : {0.5, 0.0}) {
      const auto communicator = make_communicator(mpi, device);
      TowerSettings settings = settings_of(8, 0.1);
      settings.optimizer.rule = rule;
      settings.optimizer.moving_average_decay = decay;
      Tower tower(mnist(), ten_classes(), settings, device, *communicator);
      begin(tower);
      for (std::uint64_t step = 0; step < 3; ++step) {
        take_step(tower, NoiseBatch(8 * (step * 4 + static_cast<std::uint64_t>(mpi.rank())), 8, 784));
      }
      tower.synchronize_buffers();
      CheckpointState& state = decay > 0.0 ? with : without;
      tower.save(state);
      EXPECT_GE(tower.saved_floats(), 2 * tower.parameters().values().size());
      if (decay > 0.0) continue;
      EXPECT_TRUE(std::ranges::equal(tower.moving_averages(), tower.parameters().values()));
      if (mpi.rank() == 0) tower.restore({.path = "with averages", .state = with});
      tower.broadcast_from_first();
      CheckpointState restored;
      tower.save(restored);
      EXPECT_TRUE(equal_values(restored.variables, with.variables)) << rule;
    }
    EXPECT_TRUE(equal_values(with.variables, without.variables)) << rule;
    EXPECT_TRUE(equal_values(without.moving_averages, without.variables)) << rule;
    EXPECT_FALSE(equal_values(with.moving_averages, with.variables)) << rule;
  }
}

/// A checkpoint also holds lookahead's slow copies of buffers. The slow copies are synchronised in the same way as the
/// buffers.
TEST(Tower, OneThatLooksAheadIsSavedAndRestored) {
  CpuDevice device(1);
  TowerSettings settings = settings_of(4, 0.05);
  settings.optimizer.rule = "momentum";
  settings.optimizer.lookahead = {.every = 3, .decay = 0.9, .power = 1.0, .steps = 8};
  const Network network = normalized_network();
  const auto communicator = make_communicator(mpi_world(), device), of_other = make_communicator(mpi_world(), device);
  Tower tower(network, task_of(network), settings, device, *communicator),
      other(network, task_of(network), settings, device, *of_other);
  const auto step = [&](Tower& of, int number) {
    const NoiseBatch samples(static_cast<std::uint64_t>(4 * (number * mpi_world().size() + mpi_world().rank())), 4,
                             784);
    of.step({.step = number, .batch = samples.batch()});
    EXPECT_TRUE(of.next_result(Results::all));
  };
  const auto values = [](const Tower& of) {
    std::vector<float> all(of.parameters().values().begin(), of.parameters().values().end());
    all.insert(all.end(), of.buffers().values().begin(), of.buffers().values().end());
    return all;
  };
  begin(tower);
  for (int number = 0; number < 4; ++number) step(tower, number);
  tower.synchronize_buffers();
  LoadedCheckpoint saved;
  tower.save(saved.state);
  EXPECT_EQ(saved.state.optimizer.at("lookahead").size(), saved.state.variables.size() + saved.state.buffers.size());
  if (mpi_world().rank() == 0) other.restore(saved);
  other.broadcast_from_first();
  for (int number = 4; number < 8; ++number) {
    step(tower, number);
    step(other, number);
    EXPECT_TRUE(equal_bits(values(tower), values(other))) << number;
  }
  // In the last step, lookahead sets the variables and buffers to their slow copies. Each rank has its own slow copies
  // of the buffers.
  other.save(saved.state);
  const auto& slow = saved.state.optimizer.at("lookahead");
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const std::size_t variables = saved.state.variables.size();
    const NamedArray& array = i < variables ? saved.state.variables[i] : saved.state.buffers[i - variables];
    EXPECT_EQ(slow[i].name, array.name);
    EXPECT_TRUE(equal_bits(slow[i].values, array.values)) << array.name;
  }
}

TEST(Tower, StatesReturnToTheirSlowCopies) {
  CpuDevice device(1);
  TowerSettings settings = settings_of(2, 0.01);
  settings.optimizer.lookahead = {.every = 2, .decay = 0.25, .steps = 5};
  const auto communicator = make_communicator(mpi_world(), device);
  Tower tower(counting_network(), ten_classes(), settings, device, *communicator);
  begin(tower);
  const float own = static_cast<float>(mpi_world().rank() + 1);
  float state = 1.0f, slow = 1.0f;
  for (int step = 0; step < 5; ++step) {
    const NoiseBatch samples(0, 2, 784);
    tower.step({.step = step, .batch = samples.batch()});
    state += own;
    if (step % 2 == 1) state = slow += 0.75f * (state - slow);
    if (step == 4) state = slow;
    EXPECT_FLOAT_EQ(tower.buffers().tensor(0).floats()[0], state) << step;
  }
}

TEST(Tower, SlotsOfAnotherOptimiserAreRefused) {
  CpuDevice device(1);
  TowerSettings with_momentum = settings_of(2, 0.01);
  with_momentum.optimizer.rule = "momentum";
  const auto of_tower = make_self_communicator(device), of_plain = make_self_communicator(device);
  Tower tower(mnist(), ten_classes(), with_momentum, device, *of_tower),
      plain(mnist(), ten_classes(), settings_of(2, 0.01), device, *of_plain);
  LoadedCheckpoint saved;
  tower.save(saved.state);
  EXPECT_THROW(plain.restore(saved), Error);
  saved.state.optimizer.clear();
  EXPECT_THROW(tower.restore(saved), Error);
}

TEST(Tower, WhatIsCommonIsFilledOnTheFirstRankOnly) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  WithoutSharedHostMemory without(device);
  const auto ranks = make_communicator(mpi, device);
  for (Communicator* const communicator : {static_cast<Communicator*>(&without), ranks.get()}) {
    Tower tower(mnist(), ten_classes(), settings_of(2, 0.01), device, *communicator);
    LoadedCheckpoint saved;
    tower.save(saved.state);
    mpi.barrier();
    const bool may = mpi.rank() == 0 || communicator->shared_host_memory() == nullptr;
    const std::vector<std::function<void()>> ways{[&] { tower.initialize(1); }, [&] { tower.restore(saved); },
                                                  [&] { tower.initialize_from(saved); }};
    for (const auto& fill : ways) {
      if (may) {
        EXPECT_NO_THROW(fill());
      } else {
        EXPECT_THROW(fill(), Error);
      }
    }
  }
}

TEST(Tower, APauseThatOneRankAsksForIsKnownToAll) {
  const Mpi& mpi = mpi_world();
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  Tower tower(mnist(), ten_classes(), settings_of(2, 1e-6), device, *communicator);
  begin(tower);
  const NoiseBatch samples(0, 2, 784);
  EXPECT_FALSE(take_step(tower, samples).sync_requested);
  EXPECT_TRUE(take_step(tower, samples, mpi.rank() == mpi.size() - 1).sync_requested);
}

}  // namespace
}  // namespace carillon::testing
