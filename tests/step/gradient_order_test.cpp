// That gradients are averaged in the right order beside the backward pass, for every model and bucket size.
#include <gtest/gtest.h>

#include <map>

#include "carillon/step/reducer.h"
#include "src/comm/side_work.h"
#include "tests/comm/fake_gpu.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

/// Follows every parameter's gradient (and, last, the step sums) through a step, in the order in which a device does
/// the work. Averages as NCCL does: on a side stream, ordered by SideWork.
class OrderChecker final : public Communicator {
 public:
  OrderChecker(const std::vector<ParameterSpec>& specs, unsigned seed)
      : gpu_(seed), store_(specs, gpu_, allocate((ParameterLayout(specs).total() + step_sum_count) * sizeof(float))) {}

  std::string_view name() const override { return "checker"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Buffer allocate(std::size_t bytes) override { return gpu_.allocate(bytes); }
  void acquire(Stream&) override {}
  void start_mean(std::span<float> bucket, Stream&) override {
    const auto begin = static_cast<std::size_t>(bucket.data() - store_.gradients_and_sums().data());
    buckets.emplace_back(begin, bucket.size());
    work_.fork(gpu_.compute);
    gpu_.side.give([=, this, end = begin + bucket.size()] { reduce(begin, end); });
    gpu_.go_on_a_little();
  }
  void finish(Stream&) override { work_.join(gpu_.compute); }
  void broadcast(std::span<float>, int) override {}
  void mean(std::span<float>) override {}

  /// Enqueues a step as Tower does.
  void step(Reducer& reducer) {
    reducer.begin(gpu_.compute);
    for (const int parameter : store_.layout().order()) {
      gpu_.compute.give([this, parameter] { move(parameter, State::used, State::complete); });
      gpu_.go_on_a_little();
      if (parameter == store_.layout().order().back()) {
        gpu_.compute.give([this] { move(sums(), State::used, State::complete); });
      }
      reducer.add(parameter, gpu_.compute);
    }
    reducer.finalize(gpu_.compute);
    for (int part = 0; part <= sums(); ++part) {
      gpu_.compute.give([this, part] { move(part, State::reduced, State::used); });
    }
  }
  void synchronize() { gpu_.compute.synchronize(); }
  const ParameterStore& store() const { return store_; }

  std::vector<std::pair<std::size_t, std::size_t>> buckets;  ///< offset and size of all started, in order
  int moves = 0;                                             ///< of a gradient from one state to the next

 private:
  enum class State { used, complete, reduced };

  int sums() const { return static_cast<int>(store_.specs().size()); }

  void move(int part, State from, State to) {
    EXPECT_EQ(static_cast<int>(states_[part]), static_cast<int>(from)) << "part " << part;
    states_[part] = to;
    ++moves;
  }

  void reduce(std::size_t begin, std::size_t end) {
    const ParameterLayout& layout = store_.layout();
    for (int part = 0; part <= sums(); ++part) {
      const std::size_t first = part == sums() ? layout.total() : layout.offset(part);
      const std::size_t last = first + (part == sums() ? step_sum_count : layout.count(part));
      if (last <= begin || first >= end) continue;
      EXPECT_TRUE(first >= begin && last <= end) << "part " << part << " is cut";
      move(part, State::complete, State::reduced);
    }
  }

  FakeGpu gpu_;
  SideWork<FakeEvent, FakeStream> work_{gpu_.side};
  std::map<int, State> states_;  // used, unless noted
  ParameterStore store_;
};

std::vector<ParameterSpec> parameters_of(const Network& network) {
  return build_network(network, {.batch_size = 2}).graph.parameters();
}

TEST(GradientOrder, EachGradientIsReducedOnceAfterItIsCompleteAndBeforeItIsUsed) {
  constexpr int steps = 3;
  for (const Network& network : all_networks()) {
    const std::vector<ParameterSpec> specs = parameters_of(network);
    for (std::size_t bytes = 1; bytes < (std::size_t{1} << 28); bytes *= 4) {
      std::vector<std::pair<std::size_t, std::size_t>> buckets;
      for (unsigned rank = 0; rank < 8; ++rank) {  // ranks differ in how fast their streams go
        OrderChecker checker(specs, rank);
        Reducer reducer(checker, checker.store(), bytes);
        for (int step = 0; step < steps; ++step) checker.step(reducer);
        checker.synchronize();
        EXPECT_EQ(checker.moves, static_cast<int>(3 * steps * (specs.size() + 1))) << network.name << ", " << bytes;
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
