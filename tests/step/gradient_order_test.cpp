// Tests that gradients are averaged in the right order during the backward pass, for every model and bucket size.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "src/device/cuda_backend.h"
#include "src/step/drivers/driver.h"
#include "src/step/update/update_strategy.h"
#include "tests/comm/fake_gpu.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

/// Tracks the state of each part through TrainingStep. A part is the gradient of a parameter; the last part is the step
/// sums. States change in the order in which the device does the work. Like NCCL, the communicator averages on a side
/// stream, which SideWork orders.
class OrderChecker final : public Communicator {
 public:
  OrderChecker(const BuiltNetwork& network, unsigned seed, std::size_t bucket_bytes)
      : gpu_(seed),
        network_(tracked(network)),
        update_({.graph = network_.graph,
                 .optimizer = settings_,
                 .device = gpu_,
                 .communicator = *this,
                 .inputs = inputs_,
                 .bucket_bytes = bucket_bytes},
                [this](const auto&, const auto&, auto&, const auto&, auto) { return std::make_unique<UseAll>(*this); }),
        source_(make_whole_batch({network_, gpu_, update_.parameters(), buffers_, inputs_})),
        step_(*source_, update_, lookahead_) {}

  std::string_view name() const override { return "checker"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Buffer allocate(std::size_t bytes) override { return gpu_.allocate(bytes); }
  void acquire(Stream&) override {}
  void start_allreduce_mean(std::span<float> bucket, Stream&) override {
    const auto begin = static_cast<std::size_t>(bucket.data() - store().gradients_and_sums().data());
    buckets.emplace_back(begin, bucket.size());
    work_.fork(gpu_.compute);
    gpu_.side.give([=, this, end = begin + bucket.size()] { reduce(begin, end); });
    gpu_.go_on_a_little();
  }
  void finish(Stream&) override { work_.join(gpu_.compute); }
  void broadcast(std::span<float>, int) override {}
  void mean(std::span<float>) override {}

  void take_step() {
    step_.enqueue_gradients(MeanGradients::readable);
    step_.enqueue_means();
    step_.enqueue_update();
  }
  void synchronize() { gpu_.compute.synchronize(); }

  std::vector<std::pair<std::size_t, std::size_t>> buckets;  ///< offset and size of each bucket that was started
  int moves = 0;                                             ///< number of times that a part's state has changed

 private:
  enum class State { used, complete, reduced };

  /// A fake GPU that reports DeviceKind::cpu, so that TrainingStep uses the CPU's code for work such as the step sums.
  struct Gpu final : FakeGpu {
    using FakeGpu::FakeGpu;
    DeviceKind kind() const override { return DeviceKind::cpu; }
  };

  /// An op that completes the gradients of some parameters in its backward pass. If the op is the loss, it completes
  /// the step sums in its forward pass.
  struct Tracked final : OpDefinition {
    Tracked(OrderChecker& of, std::vector<int> completes) : checker(of), parameters(std::move(completes)) {}
    std::string_view type() const override { return "tracked"; }
    BackwardNeeds backward_needs() const override { return {}; }
    std::unique_ptr<Op> instantiate(const OpContext&, const OpTensors& tensors) const override {
      struct Work final : Op {
        Work(OrderChecker& of, std::vector<int> completes, bool loss)
            : checker(of), parameters(std::move(completes)), is_loss(loss) {}
        void forward(Stream&) override {
          if (is_loss) checker.complete(checker.sums());
        }
        void backward(Stream&) override {
          for (const int parameter : parameters) checker.complete(parameter);
        }
        OrderChecker& checker;
        std::vector<int> parameters;
        bool is_loss;
      };
      return std::make_unique<Work>(checker, parameters, tensors.outputs.at(0).shape.rank() == 0);
    }
    OrderChecker& checker;
    std::vector<int> parameters;
  };

  /// An optimiser that reads every gradient and the step sums.
  struct UseAll final : Optimizer {
    explicit UseAll(OrderChecker& of) : checker(of) {}
    void apply(const StepEnd&, Stream&) override {
      for (int part = 0; part <= checker.sums(); ++part) {
        checker.gpu_.compute.give([part, this] { checker.move(part, State::reduced, State::used); });
      }
    }
    OrderChecker& checker;
  };

  BuiltNetwork tracked(BuiltNetwork network) {
    std::vector<Graph::Node> nodes = network.graph.nodes();
    std::set<int> listed;  // if ops share a parameter, only the first one completes its gradient
    for (Graph::Node& node : nodes) {
      std::vector<int> completes;
      std::ranges::copy_if(node.parameters, std::back_inserter(completes),
                           [&](int parameter) { return listed.insert(parameter).second; });
      node.definition = std::make_shared<Tracked>(*this, std::move(completes));
    }
    network.graph.replace_nodes(std::move(nodes));
    return network;
  }

  const ParameterStore& store() const { return update_.parameters(); }
  int sums() const { return static_cast<int>(store().specs().size()); }

  void complete(int part) {
    gpu_.compute.give([this, part] { move(part, State::used, State::complete); });
    gpu_.go_on_a_little();
  }

  void move(int part, State from, State to) {
    EXPECT_EQ(static_cast<int>(states_of_parts_[part]), static_cast<int>(from)) << "part " << part;
    states_of_parts_[part] = to;
    ++moves;
  }

  void reduce(std::size_t begin, std::size_t end) {
    const ParameterLayout& layout = store().layout();
    for (int part = 0; part <= sums(); ++part) {
      const std::size_t first = part == sums() ? layout.total() : layout.offset(part);
      const std::size_t last = first + (part == sums() ? step_sum_count : layout.count(part));
      if (last <= begin || first >= end) continue;
      EXPECT_TRUE(first >= begin && last <= end) << "part " << part << " is cut";
      move(part, State::complete, State::reduced);
    }
  }

  Gpu gpu_;
  SideWork<FakeEvent, FakeStream> work_{gpu_.side};
  std::map<int, State> states_of_parts_;  // if a part is missing, its state is `used`
  StepInputs inputs_;
  OptimizerSettings settings_;
  BuiltNetwork network_;
  BufferStore buffers_{network_.graph.buffers(), gpu_};
  BufferLookahead lookahead_{settings_.lookahead, buffers_, gpu_, inputs_};
  ReplicatedUpdate update_;
  std::unique_ptr<GradientSource> source_;
  TrainingStep step_;
};

BuiltNetwork built(const Network& network) { return build_network(network, task_of(network), {.batch_size = 2}); }

std::vector<ParameterSpec> parameters_of(const Network& network) { return built(network).graph.parameters(); }

TEST(GradientOrder, EachGradientIsReducedOnceAfterItIsCompleteAndBeforeItIsUsed) {
  constexpr int steps = 3;
  for (const Network& network : all_networks()) {
    const BuiltNetwork network_built = built(network);
    const std::size_t parts = network_built.graph.parameters().size() + 1;
    for (std::size_t bytes = 1; bytes < (std::size_t{1} << 28); bytes *= 4) {
      std::vector<std::pair<std::size_t, std::size_t>> buckets;
      for (unsigned rank = 0; rank < 8; ++rank) {  // with each seed, the streams run in another order
        OrderChecker checker(network_built, rank, bytes);
        for (int step = 0; step < steps; ++step) checker.take_step();
        checker.synchronize();
        EXPECT_EQ(checker.moves, static_cast<int>(3 * steps * parts)) << network.name << ", " << bytes;
        if (rank == 0) buckets = checker.buckets;
        EXPECT_EQ(checker.buckets, buckets) << "ranks average other buckets, or in another order";
      }
    }
  }
}

TEST(GradientOrder, BucketsOfEveryModelCoverTheArrayBeginAlignedAndReachTheirSize) {
  for (const Network& network : all_networks()) {
    const ParameterLayout layout(parameters_of(network));
    for (std::size_t bytes = 1; bytes < (std::size_t{1} << 28); bytes = bytes * 3 / 2 + 1) {
      const std::vector<std::size_t> ends = bucket_ends(layout, bytes);
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        ASSERT_LT(begin, end);
        EXPECT_EQ(begin * sizeof(float) % tensor_alignment_bytes, 0u);
        EXPECT_TRUE(end == ends.back() || (end - begin) * sizeof(float) >= bytes);
        begin = end;
      }
      EXPECT_EQ(begin, layout.total() + step_sum_count) << network.name << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace carillon::testing
