// Tests of steps that are interrupted by an error or by the end of a rank's process.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "kernels/dense/dense.h"
#include "kernels/image_input/image_input.h"
#include "src/comm/mpi/members.h"
#include "src/comm/transport/shared_memory.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

struct ProcessEnds : std::runtime_error {
  ProcessEnds() : std::runtime_error("the process ends") {}
};

/// A flag in shared memory that all ranks of the host see.
class SharedFlag {
 public:
  SharedFlag() : arrays_(mpi_world().ranks().local, sizeof(float)) {}
  void set() { arrays_.reach(&SharedArrays::Progress::copied, 1); }
  bool is_set(int rank) const { return arrays_.has_reached(&SharedArrays::Progress::copied, rank, 1); }

 private:
  SharedArrays arrays_;
};

/// Reports which ranks have ended: the ranks that have set the flag.
class EndedRanks final : public WaitObserver {
 public:
  explicit EndedRanks(const SharedFlag& flag) : flag_(flag) {}
  void still_waiting(std::string_view, std::span<const int>, double) override {}
  void waited(double) override {}
  bool has_ended(int rank) const override { return flag_.is_set(rank); }

 private:
  const SharedFlag& flag_;
};

/// Shared host memory that simulates the end of this rank after the rank has updated `blocks` blocks of its shard.
/// `averagings`: number of calls of means_of for the shard before the update. These calls compute the norm of the
/// gradients.
class EndingMemory final : public ForwardingMemory {
 public:
  EndingMemory(SharedHostMemory& memory, SharedFlag& flag) : ForwardingMemory(memory), flag_(flag) {}
  void end_after(std::size_t blocks, int averagings) {
    left_ = blocks;
    averagings_ = averagings;
  }

  void means_of(std::span<const float> values, const TakeMeans& take) const override {
    const bool is_shard = values.size() > step_sum_count && averagings_-- == 0;
    ForwardingMemory::means_of(values, [&](std::size_t first, std::span<const float> means) {
      if (is_shard && first >= left_ * sum_block_floats) {
        flag_.set();
        throw ProcessEnds();
      }
      take(first, means);
    });
  }

 private:
  SharedFlag& flag_;
  std::size_t left_ = std::size_t{1} << 40;
  mutable int averagings_ = -1;  ///< counts down; if it starts at -1, it never becomes 0
};

/// A communicator that uses an EndingMemory.
class EndingCommunicator final : public ForwardingCommunicator {
 public:
  EndingCommunicator(Device& device, SharedFlag& flag, WaitLimit limit)
      : ForwardingCommunicator(device, limit), memory_(*ForwardingCommunicator::shared_host_memory(), flag) {}
  SharedHostMemory* shared_host_memory() override { return &memory_; }
  EndingMemory& memory() { return memory_; }

 private:
  EndingMemory memory_;
};

TowerSettings settings(double clip_norm = 0.0) {
  return {.batch_size = 2,
          .optimizer = {.rule = "momentum",
                        .learning_rate = constant_rate(0.1),
                        .moving_average_decay = 0.5,
                        .clip_norm = clip_norm}};
}

Network mnist() { return mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f, .regularization = 1e-4f})); }

NoiseBatch samples_of(int step) {
  return {static_cast<std::uint64_t>(2 * (step * mpi_world().size() + mpi_world().rank())), 2, 784};
}

std::vector<float> floats_of(const CheckpointState& state) {
  std::vector<float> all;
  const auto add = [&](const std::vector<NamedArray>& arrays) {
    for (const NamedArray& array : arrays) all.insert(all.end(), array.values.begin(), array.values.end());
  };
  add(state.variables);
  add(state.moving_averages);
  for (const auto& [slot, arrays] : state.optimizer) add(arrays);
  add(state.buffers);
  return all;
}

std::vector<float> whole_step(const Tower& tower) {
  CheckpointState state;
  tower.save_whole_step(state);
  return floats_of(state);
}

/// Returns the state of a tower after `steps` steps without an interruption.
std::vector<float> undisturbed(int steps, double clip_norm) {
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi_world(), device);
  Tower tower(mnist(), ten_classes(), settings(clip_norm), device, *communicator);
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  for (int step = 0; step < steps; ++step) tower.step({.step = step, .batch = samples_of(step).batch()});
  std::vector<float> whole = whole_step(tower);
  mpi_world().barrier();  // other ranks may still read this rank's slots in shared memory
  return whole;
}

constexpr int last_step = 2;

/// The parameter is the value of --clip-norm. If it is 0, gradients are not clipped.
class InterruptedUpdateTest : public ::testing::TestWithParam<double> {
 protected:
  /// Runs steps until `last_step`. In this step, rank `ended` ends after it has updated `blocks` blocks. Returns the
  /// text of the ProcessEnds that this rank gets, or an empty text.
  std::string steps_until_end(int ended, std::size_t blocks) {
    if (mpi_world().rank() == 0) tower_.initialize(1);
    tower_.broadcast_from_first();
    try {
      for (int step = 0; step <= last_step; ++step) {
        if (step == last_step && mpi_world().rank() == ended) communicator_.memory().end_after(blocks, clips() ? 1 : 0);
        tower_.step({.step = step, .batch = samples_of(step).batch()});
      }
    } catch (const ProcessEnds& error) {
      return error.what();
    }
    return "";
  }

  static bool clips() { return GetParam() > 0.0; }

  CpuDevice device_{1};
  SharedFlag flag_;
  EndedRanks observer_{flag_};
  EndingCommunicator communicator_{device_, flag_, {.observer = &observer_}};
  Tower tower_{mnist(), ten_classes(), settings(GetParam()), device_, communicator_};
};

TEST_P(InterruptedUpdateTest, TheOtherRanksFinishTheShardOfTheLastRank) {
  const int ended = mpi_world().size() - 1;
  if (ended == 0) return;
  const std::vector<float> expected = undisturbed(last_step + 1, GetParam());
  const std::string error = steps_until_end(ended, 3);
  EXPECT_EQ(error.empty(), mpi_world().rank() != ended);
  EXPECT_EQ(tower_.holds_whole_step(), mpi_world().rank() != ended);
  if (tower_.holds_whole_step()) {
    EXPECT_TRUE(equal_bits(whole_step(tower_), expected));
  }
  mpi_world().barrier();
}

TEST_P(InterruptedUpdateTest, TheOtherRanksFinishTheShardOfTheFirstRank) {
  if (mpi_world().size() == 1) return;
  const std::vector<float> expected = undisturbed(last_step + 1, GetParam());
  steps_until_end(0, 0);
  EXPECT_EQ(tower_.holds_whole_step(), mpi_world().rank() != 0);
  if (tower_.holds_whole_step()) {
    EXPECT_TRUE(equal_bits(whole_step(tower_), expected));
  }
  mpi_world().barrier();
}

INSTANTIATE_TEST_SUITE_P(Updates, InterruptedUpdateTest, ::testing::Values(0.0, 0.05),
                         [](const auto& of) { return of.param > 0.0 ? "clipped" : "unclipped"; });

bool count_and_throw_throws = false;

/// An op that counts the training batches in a buffer. Then, if `count_and_throw_throws` is set, its forward pass
/// throws an exception.
class CountAndThrow final : public OpDefinition {
 public:
  std::string_view type() const override { return "count_and_throw"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& tensors) const override {
    struct Count final : Op {
      explicit Count(const Tensor& given) : count(given) {}
      void forward(Stream&) override {
        ++count.floats()[0];
        if (count_and_throw_throws) throw ProcessEnds();
      }
      void backward(Stream&) override {}
      Tensor count;
    };
    return std::make_unique<Count>(tensors.buffers[0]);
  }
};

Value count_and_throw(Graph& graph, const std::string& name, Value x) {
  static constexpr OpType type = op_type<count_and_throw>("count_and_throw");
  const int count = graph.add_buffer({.name = name, .shape = {1}});
  return graph.add_op(
      {.name = name, .definition = std::make_shared<CountAndThrow>(), .inputs = {x}, .buffers = {count}, .type = &type},
      graph.shape(x));
}

TEST(InterruptedForwardPass, LeavesTheLastWholeStepWithItsBuffers) {
  count_and_throw_throws = false;
  const Network counting = make_network("counting", {.image = {28, 28, 1}}, [](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = dense(graph, "first", x, {.units = 4});
    x = count_and_throw(graph, "count", x);
    return dense(graph, "second", x, {.units = 10});
  });
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi_world(), device);
  TowerSettings own = settings();
  own.optimizer.lookahead = {.every = 1, .decay = 0.5};
  Tower tower(counting, ten_classes(), own, device, *communicator);
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  std::vector<float> before;
  for (int step = 0; step < 2; ++step) {
    tower.step({.step = step, .batch = samples_of(step).batch()});
    CheckpointState state;
    tower.save(state);
    before = floats_of(state);
    EXPECT_TRUE(equal_bits(whole_step(tower), before));
  }
  const float counted = tower.buffers().tensor(0).floats()[0];
  mpi_world().barrier();
  count_and_throw_throws = true;
  EXPECT_THROW(tower.step({.step = 2, .batch = samples_of(2).batch()}), ProcessEnds);
  EXPECT_NE(tower.buffers().tensor(0).floats()[0], counted) << "the step has begun";
  EXPECT_TRUE(equal_bits(whole_step(tower), before));
  mpi_world().barrier();
}

}  // namespace
}  // namespace carillon::testing
