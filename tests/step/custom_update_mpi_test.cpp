// Trains a tower with a user-defined update strategy, in which the slots are sharded over ranks that share no memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "carillon/core/error.h"
#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "src/optim/optimizer.h"
#include "src/optim/update_factors.h"
#include "src/step/gradients/reducer.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"

namespace carillon::testing {
namespace {

/// Reserves address space for the slots of all shards. Pages that are never written use no memory.
Buffer reserve(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(data != MAP_FAILED, "no address space for the slots");
  return {data, bytes, [bytes](void* memory) { munmap(memory, bytes); }};
}

/// All-reduces the gradients, updates this rank's shard of the variables and slots, and all-gathers the variables. The
/// slots of all shards exist on a rank only between synchronize and the next step.
class ShardedOverRanks final : public UpdateStrategy {
 public:
  explicit ShardedOverRanks(const UpdateContext& context)
      : communicator_(context.communicator),
        device_(context.device),
        parameters_(make_parameters(context)),
        shard_(reduction_slice(parameters_.layout().total(), communicator_.rank(), communicator_.size())),
        reducer_(communicator_, parameters_, bucket_bytes_on(device_.kind(), context.bucket_bytes)),
        optimizer_(make_elementwise_optimizer(context.optimizer, parameters_, context.inputs)),
        end_{parameters_.step_sums().data(), context.inputs.progress},
        whole_slots_(parameters_.slots().size(), std::vector<float>(parameters_.layout().total())) {
    if (context.optimizer.clip_norm > 0.0) norm_.emplace(context.optimizer, parameters_, context.inputs);
  }

  const ParameterStore& parameters() const override { return parameters_; }
  std::span<float> slot(int slot) const override {
    check(!whole_slots_.empty(), "slots are read without synchronize");
    return whole_slots_[static_cast<std::size_t>(slot)];
  }
  bool replicates_slots() const override { return false; }

  void broadcast_from_first() override {
    communicator_.broadcast(parameters_.values(), 0);
    for (std::size_t i = 0; i < whole_slots_.size(); ++i) {
      communicator_.broadcast(whole_slots_[i], 0);
      std::ranges::copy(own_part(whole_slots_[i]), own_part(parameters_.slot(static_cast<int>(i))).begin());
    }
    whole_slots_.clear();
  }
  void synchronize() override {
    whole_slots_.assign(parameters_.slots().size(), std::vector<float>(parameters_.layout().total()));
    for (std::size_t i = 0; i < whole_slots_.size(); ++i) {
      std::ranges::copy(own_part(parameters_.slot(static_cast<int>(i))), own_part(whole_slots_[i]).begin());
      communicator_.all_gather(whole_slots_[i], device_.stream());
    }
  }

  void begin_step(MeanGradients /*gradients*/) override { whole_slots_.clear(); }
  void acquire(Stream& stream) override { reducer_.begin(stream); }
  void gradient_complete(int parameter, Stream& stream) override { reducer_.add(parameter, stream); }
  void enqueue_means() override { reducer_.finalize(device_.stream()); }
  const StepEnd& step_end() const override { return end_; }
  void enqueue_update() override {
    if (!end_.allows_update()) return;
    if (norm_) optimizer_->clip(norm_->of_gradients());
    update_on_all_threads(*optimizer_, shard_.begin, own_part(parameters_.gradients_and_sums()));
    communicator_.all_gather(parameters_.values(), device_.stream());
  }
  bool holds_whole_step() const override { return false; }  // no rank has the slots of all shards

 private:
  static ParameterStore make_parameters(const UpdateContext& context) {
    const ParameterLayout layout(context.graph.parameters());
    std::vector<Slot> slots = optimizer_slots(context.optimizer);
    Buffer of_slots = reserve(slots.size() * value_bytes(layout));
    return {context.graph.parameters(), context.device,
            ParameterMemory{.gradients = context.communicator.allocate(gradient_bytes(layout, context.step_sums)),
                            .slots = std::move(of_slots)},
            std::move(slots), context.step_sums};
  }
  std::span<float> own_part(std::span<float> array) const {
    return array.subspan(shard_.begin, shard_.end - shard_.begin);
  }

  Communicator& communicator_;
  Device& device_;
  ParameterStore parameters_;
  Slice shard_;
  Reducer reducer_;
  std::unique_ptr<ElementwiseOptimizer> optimizer_;
  StepEnd end_;
  std::optional<GradientNorm> norm_;
  mutable std::vector<std::vector<float>> whole_slots_;  ///< [slot]; the slots of all shards; empty during steps
};

constexpr std::int64_t own_batch = 4;

struct Training {
  std::string rule = "momentum";
  std::int64_t micro_batch = 0;
  LookaheadSettings lookahead = {};
  int observe_every = 0;
  bool is_custom = true;
  double clip_norm = 0.0;
};

TowerSettings settings_of(const Training& training) {
  TowerSettings settings{.batch_size = own_batch,
                         .micro_batch = training.micro_batch,
                         .optimizer = {.rule = training.rule,
                                       .learning_rate = constant_rate(0.1),
                                       .moving_average_decay = 0.5,
                                       .clip_norm = training.clip_norm,
                                       .groups = {{.pattern = "stem/*", .frozen_after = 3}},
                                       .lookahead = training.lookahead}};
  if (training.is_custom) {
    settings.make_update = [](const UpdateContext& context) { return std::make_unique<ShardedOverRanks>(context); };
  }
  return settings;
}

/// A tower with its device and its communicator.
struct Replica {
  explicit Replica(const Training& training)
      : settings(settings_of(training)),
        communicator(make_communicator(mpi_world(), device, "auto", {}, averaging_of(settings, mpi_world().size()))),
        tower(normalized_network(), smoothed_classes(), settings, device, *communicator) {}

  void take_steps(int first, int last, int observe_every) {
    for (int step = first; step < last; ++step) {
      const std::int64_t position = own_batch * (step * mpi_world().size() + mpi_world().rank());
      const NoiseBatch samples(static_cast<std::uint64_t>(position), own_batch, 784);
      StepRequest request{.step = step, .batch = samples.batch()};
      if (observe_every > 0 && step % observe_every == 0) request.before_update = [] {};
      tower.step(request);
      losses.push_back(static_cast<float>(tower.next_result(Results::all).value().loss));
    }
    tower.synchronize_buffers();
  }

  /// Returns the losses, variables, slots and buffers, concatenated.
  std::vector<float> values() const {
    std::vector<float> all = losses;
    const auto add = [&](std::span<const float> array) { all.insert(all.end(), array.begin(), array.end()); };
    add(tower.parameters().values());
    for (std::size_t slot = 0; slot < tower.slots().size(); ++slot) add(tower.slot(static_cast<int>(slot)));
    add(tower.moving_averages());
    add(tower.buffers().values());
    return all;
  }

  CpuDevice device{1};
  TowerSettings settings;
  std::unique_ptr<Communicator> communicator;
  Tower tower;
  std::vector<float> losses;
};

std::vector<float> train(const Training& training) {
  Replica replica(training);
  if (mpi_world().rank() == 0) replica.tower.initialize(1);
  replica.tower.broadcast_from_first();
  replica.take_steps(0, 5, training.observe_every);
  return replica.values();
}

TEST(CustomUpdate, TrainsAsTheOwnStrategiesBitForBit) {
  for (Training training : {Training{.rule = "sgd"}, Training{.rule = "momentum", .observe_every = 2},
                            Training{.rule = "adamw", .micro_batch = 2},
                            Training{.rule = "nesterov", .lookahead = {.every = 2, .decay = 0.7}},
                            Training{.rule = "momentum", .clip_norm = 0.01}}) {
    const std::vector<float> found = train(training);
    training.is_custom = false;
    EXPECT_TRUE(equal_bits(found, train(training))) << training.rule;
  }
}

TEST(CustomUpdate, IsSavedOnOneRankAndRestoredByAnyStrategy) {
  const Training training{.rule = "adamw"};
  Replica replica(training);
  if (mpi_world().rank() == 0) replica.tower.initialize(1);
  replica.tower.broadcast_from_first();
  replica.take_steps(0, 2, 0);
  LoadedCheckpoint saved;
  if (mpi_world().rank() == 0) replica.tower.save(saved.state);
  replica.losses.clear();
  replica.take_steps(2, 5, 0);
  for (const bool is_custom : {true, false}) {
    Replica resumed({.rule = "adamw", .is_custom = is_custom});
    if (mpi_world().rank() == 0) resumed.tower.restore(saved);
    resumed.tower.broadcast_from_first();
    resumed.take_steps(2, 5, 0);
    EXPECT_TRUE(equal_bits(resumed.values(), replica.values())) << is_custom;
  }
}

TEST(CustomUpdate, ABadLossOfOneRankChangesNothing) {
  Replica replica({});
  if (mpi_world().rank() == 0) {
    replica.tower.initialize(1);
    std::ranges::fill(replica.tower.parameters().value(0).floats(), 3e38f);
  }
  replica.tower.broadcast_from_first();
  const auto values = replica.tower.parameters().values();
  const std::vector<float> before(values.begin(), values.end());
  replica.take_steps(0, 1, 0);
  EXPECT_FALSE(std::isfinite(replica.losses.front()));
  EXPECT_TRUE(equal_bits({values.begin(), values.end()}, before));
}

}  // namespace
}  // namespace carillon::testing
