#include "src/step/update/sharded_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"

namespace carillon::testing {
namespace {

constexpr std::size_t batch_size = 6;

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Returns the variables and all slots, concatenated.
std::vector<float> trained_values(const Tower& tower) {
  std::vector<float> all = copy_of(tower.parameters().values());
  for (std::size_t slot = 0; slot < tower.parameters().slots().size(); ++slot) {
    const auto values = tower.parameters().slot(static_cast<int>(slot));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TowerSettings settings_of(std::string_view rule) {
  return {.batch_size = batch_size,
          .optimizer = {.rule = std::string(rule),
                        .learning_rate = constant_rate(0.1),
                        .moving_average_decay = 0.5,
                        .groups = {{.pattern = "*/biases", .rate = 0.5, .frozen_after = 3}}}};
}

/// Returns the samples of this rank in step `step`.
NoiseBatch samples_of(int step, std::size_t image_bytes) {
  const int number = step * mpi_world().size() + mpi_world().rank();
  return {static_cast<std::uint64_t>(number) * batch_size, batch_size, image_bytes};
}

class ShardedUpdateTest : public ::testing::Test {
 protected:
  /// Initialises every rank's tower with the values of rank 0's tower.
  static void begin(Tower& tower) {
    if (mpi_world().rank() == 0) tower.initialize(1);
    tower.broadcast_from_first();
  }

  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_ = make_communicator(mpi_world(), device_);
};

struct Training {
  Network network;
  std::string_view rule;
  int threads;
};

/// Returns the trained values and the losses. If `observe_every` > 0, every `observe_every`-th step has a
/// `before_update`.
std::vector<float> train(const Training& training, Communicator& communicator, int observe_every) {
  CpuDevice device(training.threads);
  Tower tower(training.network, task_of(training.network), settings_of(training.rule), device, communicator);
  if (communicator.rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  std::vector<float> losses;
  for (int step = 0; step < 6; ++step) {
    const NoiseBatch samples = samples_of(step, tower.network().image.bytes());
    StepRequest request{.step = step, .batch = samples.batch(), .request_sync = step == mpi_world().rank()};
    if (observe_every > 0 && step % observe_every == 0) request.before_update = [] {};
    tower.step(request);
    const StepResult result = tower.next_result(Results::all).value();
    EXPECT_EQ(result.sync_requested, step < mpi_world().size());
    losses.push_back(static_cast<float>(result.loss));
  }
  std::vector<float> all = trained_values(tower);
  all.insert(all.end(), losses.begin(), losses.end());
  return all;
}

TEST_F(ShardedUpdateTest, EndsAsAveragingAndUpdatingOneAfterTheOtherBitForBit) {
  const Network mnist = mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f}));
  const ParameterLayout layout(build_network(mnist, {batch_size}).graph.parameters());
  const Slice shard = communicator_->shared_host_memory()->shard(layout.total());
  ASSERT_GT(shard.end - shard.begin, 3 * elementwise_grain) << "3 threads share it";
  for (const Training& training : {Training{mnist, "sgd", 1}, Training{mnist, "sgd", 2}, Training{mnist, "momentum", 3},
                                   Training{branching_network(), "momentum", 1}, Training{mnist, "adamw", 2},
                                   Training{branching_network(), "lars", 2}, Training{mnist, "lamb", 1},
                                   Training{branching_network(), "muon", 2}}) {
    WithoutSharedHostMemory plain(device_);
    const std::vector<float> expected = train(training, plain, 0);
    for (const int observe_every : {0, 2}) {
      const auto communicator = make_communicator(mpi_world(), device_);
      EXPECT_TRUE(equal_bits(train(training, *communicator, observe_every), expected))
          << training.network.name << ", " << training.rule << ", " << training.threads << " threads, observed every "
          << observe_every;
    }
  }
}

TEST_F(ShardedUpdateTest, AnObservedStepShowsEveryTowerTheMeansAndTheOldVariables) {
  WithoutSharedHostMemory without(device_);
  Tower plain(branching_network(), ten_classes(), settings_of("sgd"), device_, without);
  Tower tower(branching_network(), ten_classes(), settings_of("sgd"), device_, *communicator_);
  begin(plain);
  begin(tower);
  const auto take = [](Tower& of, int step, const std::function<void()>& observe) {
    const NoiseBatch samples = samples_of(step, 784);
    of.step({.step = step, .batch = samples.batch(), .before_update = observe});
  };
  for (int step = 0; step < 2 * mpi_world().size(); ++step) {
    std::vector<float> means;
    take(plain, step, [&] { means = copy_of(plain.parameters().gradients_and_sums()); });
    const std::vector<float> before = trained_values(tower);
    take(tower, step, [&] {
      be_late(step % mpi_world().size());
      EXPECT_TRUE(equal_bits(copy_of(tower.parameters().gradients_and_sums()), means)) << step;
      EXPECT_TRUE(equal_bits(trained_values(tower), before)) << step;
    });
    EXPECT_FALSE(equal_bits(trained_values(tower), before));
  }
}

TEST_F(ShardedUpdateTest, OneTowersBadLossIsSeenByAllAndChangesNothing) {
  const Mpi& mpi = mpi_world();
  Tower tower(mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f})), ten_classes(), settings_of("momentum"),
              device_, *communicator_);
  if (mpi.rank() == 0) {
    tower.initialize(1);
    std::ranges::fill(tower.parameters().value(0).floats(), 3e38f);  // the product of 3e38 and any pixel except 0
                                                                     // overflows
  }
  tower.broadcast_from_first();
  const std::vector<float> before = trained_values(tower);
  std::vector<std::uint8_t> image(784, mpi.rank() == mpi.size() - 1 ? 255 : 0);
  const std::vector<const std::uint8_t*> images(batch_size, image.data());
  const std::vector<std::int32_t> labels(batch_size, 1);
  for (int step = 0; step < 4; ++step) {
    StepRequest request{.step = step, .batch = {images, std::as_bytes(std::span(labels)), {}, 0}};
    if (step % 2 == 1) request.before_update = [] {};
    tower.step(request);
    EXPECT_FALSE(std::isfinite(tower.next_result(Results::all).value().loss)) << step;
    EXPECT_TRUE(equal_bits(trained_values(tower), before)) << step;
  }
}

TEST_F(ShardedUpdateTest, SlotsAreStoredOnceForAllTowers) {
  const Mpi& mpi = mpi_world();
  Tower tower(branching_network(), ten_classes(), settings_of("momentum"), device_, *communicator_);
  begin(tower);
  if (mpi.rank() == mpi.size() - 1) {
    tower.parameters().slot(0)[4] = 18.0f;
    tower.parameters().slot(1)[5] = 19.0f;
  }
  mpi.barrier();
  EXPECT_EQ(tower.parameters().slot(0)[4], 18.0f);
  EXPECT_EQ(tower.parameters().slot(1)[5], 19.0f);
}

std::function<void()> in_backward;

/// An op that returns its input. Its backward pass calls `in_backward`. At this time, the gradients of all later ops
/// are complete, and the backward passes of earlier ops have not started.
struct BackwardProbe final : OpDefinition {
  std::string_view type() const override { return "backward probe"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext&, const OpTensors&) const override {
    struct Call final : Op {
      void forward(Stream&) override {}
      void backward(Stream&) override { in_backward(); }
    };
    return std::make_unique<Call>();
  }
};

Value backward_probe(Graph& graph, const std::string& name, Value x) {
  static constexpr OpType type = op_type<backward_probe>("backward_probe");
  return graph.add_op({.name = name, .definition = std::make_shared<BackwardProbe>(), .inputs = {x}, .type = &type},
                      graph.shape(x));
}

Network watched_network(const std::function<void()>& call) {
  in_backward = call;
  return make_network("watched", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = dense(graph, "first", x, {.units = 12, .weights = weights});
    x = backward_probe(graph, "backward probe", x);
    return dense(graph, "second", x, {.units = 10, .weights = weights});
  });
}

TEST_F(ShardedUpdateTest, RequiresAnElementwiseRuleAndSharedMemory) {
  const Graph graph = build_network(branching_network(), {batch_size}).graph;
  const StepInputs inputs;
  const OptimizerSettings sgd{.rule = "sgd"}, lars{.rule = "lars"};
  EXPECT_THROW(ShardedUpdate({graph, lars, device_, *communicator_, inputs}), Error);
  WithoutSharedHostMemory without(device_);
  EXPECT_THROW(ShardedUpdate({graph, sgd, device_, without, inputs}), Error);
}

TEST_F(ShardedUpdateTest, IsChosenForElementwiseRulesInSharedMemory) {
  const Graph graph = build_network(branching_network(), {batch_size}).graph;
  const StepInputs inputs;
  const auto replicates = [&](std::string_view rule, Communicator& communicator) {
    const OptimizerSettings settings{.rule = std::string(rule)};
    return make_update_strategy({graph, settings, device_, communicator, inputs})->replicates_slots();
  };
  WithoutSharedHostMemory without(device_);
  EXPECT_TRUE(replicates("sgd", without));
  EXPECT_FALSE(replicates("sgd", *communicator_));
  EXPECT_TRUE(replicates("lars", *make_communicator(mpi_world(), device_)));
}

constexpr int first_weights = 0, second_weights = 2;  // indices of parameters in watched_network

TEST_F(ShardedUpdateTest, NoTowerUpdatesAnythingWhileAnotherIsInItsBackwardPass) {
  const int size = mpi_world().size();
  const Tower* watched = nullptr;
  int step = 0;
  std::vector<float> before;
  const Network network = watched_network([&] {
    be_late(step % size);
    EXPECT_EQ(equal_bits(trained_values(*watched), before), size > 1) << step << "; a tower alone waits for nobody";
  });
  Tower tower(network, task_of(network), settings_of("momentum"), device_, *communicator_);
  watched = &tower;
  begin(tower);
  for (; step < 2 * size; ++step) {
    const NoiseBatch samples = samples_of(step, 784);
    before = trained_values(tower);
    tower.step({.step = step, .batch = samples.batch()});
    EXPECT_FALSE(equal_bits(trained_values(tower), before)) << "all is updated when a step returns";
    mpi_world().barrier();  // a rank must not begin its next step while another rank still compares values
  }
}

TEST_F(ShardedUpdateTest, OneTowerUpdatesAParameterAsSoonAsItsGradientIsComplete) {
  const auto alone = make_self_communicator(device_);
  const Tower* watched = nullptr;
  std::vector<float> first, second;
  const auto value = [&](int parameter) { return copy_of(watched->parameters().value(parameter).floats()); };
  bool observed = false;
  const Network network = watched_network([&] {
    EXPECT_TRUE(equal_bits(value(first_weights), first));
    EXPECT_EQ(equal_bits(value(second_weights), second), observed)
        << "an observed step updates no variable during backward";
  });
  Tower tower(network, task_of(network), settings_of("sgd"), device_, *alone);
  watched = &tower;
  tower.initialize(1);
  for (int step = 0; step < 4; ++step) {
    first = value(first_weights);
    second = value(second_weights);
    observed = step % 2 == 1;
    const NoiseBatch samples = samples_of(step, 784);
    StepRequest request{.step = step, .batch = samples.batch()};
    if (observed) request.before_update = [] {};
    tower.step(request);
    EXPECT_FALSE(equal_bits(value(first_weights), first));
  }
}

}  // namespace
}  // namespace carillon::testing
