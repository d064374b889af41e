#include "src/step/drivers/driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "carillon/core/philox.h"

namespace carillon::testing {
namespace {

/// Simulates the slowest device that is allowed. It runs a launch, and reads the launch's slots, only when the host
/// waits for the launch.
class LazyEngine final : public StepEngine {
 public:
  explicit LazyEngine(StepRingForm form) : form_(form), slots_(form.capacity(), -1), outcomes_(form.capacity()) {}

  void write(std::uint32_t slot, const StepRequest& request) override {
    for (const auto& launch : launches_) {
      const std::uint32_t behind_first = (slot + form_.capacity() - launch.first) % form_.capacity();
      EXPECT_GE(behind_first, launch.count) << "slot " << slot << " is still read";
    }
    slots_.at(slot) = request.step;
  }
  void launch(std::uint32_t first, std::uint32_t count, const std::function<void()>& before_update) override {
    EXPECT_LE(count, form_.block);
    if (before_update) {
      EXPECT_EQ(count, 1u);
    }
    launches_.push_back({first, count});
    counts.push_back(count);
  }
  void wait_for_oldest() override {
    ASSERT_FALSE(launches_.empty());
    for (std::uint32_t i = 0; i < launches_.front().count; ++i) {
      const std::uint32_t slot = (launches_.front().first + i) % form_.capacity();
      steps_run.push_back(slots_.at(slot));
      outcomes_.at(slot) = {static_cast<float>(slots_.at(slot)), slots_.at(slot) == pause_at ? 1.0f : 0.0f};
    }
    launches_.pop_front();
  }
  StepOutcome outcome(std::uint32_t slot) const override { return outcomes_.at(slot); }

  std::vector<std::uint32_t> counts;    ///< the number of steps of each launch
  std::vector<std::int64_t> steps_run;  ///< the steps in the order in which the device runs them
  std::int64_t pause_at = -1;

 private:
  struct Launch {
    std::uint32_t first, count;
  };
  StepRingForm form_;
  std::vector<std::int64_t> slots_;
  std::vector<StepOutcome> outcomes_;
  std::deque<Launch> launches_;
};

StepRequest request_of(std::int64_t step) { return {.step = step}; }

TEST(StepQueue, LaunchesFullBlocksTogetherAndKeepsOneBlockFree) {
  LazyEngine engine({4, 3});
  StepQueue queue(engine, {4, 3});
  std::vector<std::int64_t> results;
  for (std::int64_t step = 0; step < 24; ++step) {
    queue.push(request_of(step), false);
    while (const auto result = queue.next_result(Results::due)) results.push_back(result->step);
    EXPECT_LE(step + 1 - static_cast<std::int64_t>(results.size()), 8);
  }
  EXPECT_EQ(engine.counts, std::vector<std::uint32_t>(6, 4u));
  while (const auto result = queue.next_result(Results::all)) results.push_back(result->step);
  EXPECT_EQ(results.size(), 24u);
}

TEST(StepQueue, BeginsANewBlockWhereverOneWasCutShort) {
  LazyEngine engine({4, 2});
  StepQueue queue(engine, {4, 2});
  for (std::int64_t step = 0; step < 12; ++step) {
    queue.push(request_of(step), step == 2);
    while (queue.next_result(Results::due)) continue;
  }
  EXPECT_EQ(engine.counts, (std::vector<std::uint32_t>{3, 4, 4}));
}

TEST(StepQueue, AStepThatIsObservedIsLaunchedAloneAfterThoseBeforeIt) {
  LazyEngine engine({4, 2});
  StepQueue queue(engine, {4, 2});
  queue.push(request_of(0), false);
  queue.push(request_of(1), false);
  StepRequest observed = request_of(2);
  observed.before_update = [] {};
  queue.push(observed, false);
  queue.push(request_of(3), false);
  EXPECT_EQ(engine.counts, (std::vector<std::uint32_t>{2, 1}));
}

/// For any sequence of calls, each step must run once, in order, with its own inputs, and must return its own result.
/// The time at which a result becomes available must depend only on the calls.
TEST(StepQueue, EveryStepRunsOnceAndIsReportedOnceInOrder) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    PhiloxDraws draws(seed, RandomPurpose::sample_order, 0);
    const StepRingForm form{1 + draws.below(5), 2 + draws.below(3)};
    LazyEngine engine(form);
    StepQueue queue(engine, form);
    std::int64_t told = 0;
    const auto take = [&](Results wanted) {
      while (const auto result = queue.next_result(wanted)) {
        EXPECT_EQ(result->step, told);
        EXPECT_EQ(result->loss, static_cast<double>(told));
        ++told;
      }
    };
    for (std::int64_t step = 0; step < 60; ++step) {
      StepRequest request = request_of(step);
      if (draws.below(7) == 0) request.before_update = [] {};
      queue.push(request, draws.below(9) == 0);
      take(draws.below(5) == 0 ? Results::all : Results::due);
    }
    take(Results::all);
    EXPECT_EQ(told, 60);
    std::vector<std::int64_t> all(60);
    for (std::int64_t step = 0; step < 60; ++step) all[static_cast<std::size_t>(step)] = step;
    EXPECT_EQ(engine.steps_run, all);
  }
}

TEST(StepQueue, StepsHeardOfTogetherEndAtEqualDistances) {
  LazyEngine engine({4, 2});
  StepQueue queue(engine, {4, 2});
  const auto before = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < 8; ++step) queue.push(request_of(step), false);
  std::vector<std::chrono::steady_clock::time_point> ends{before};
  while (const auto result = queue.next_result(Results::all)) ends.push_back(result->finished);
  ASSERT_EQ(ends.size(), 9u);
  EXPECT_TRUE(std::ranges::is_sorted(ends));
  EXPECT_LE(ends.back(), std::chrono::steady_clock::now());
  for (std::size_t i = 2; i < ends.size(); ++i) EXPECT_EQ(ends[i] - ends[i - 1], ends[2] - ends[1]) << i;
}

TEST(StepQueue, StepsAfterAnIdleTimeBeginWhenTheyAreLaunched) {
  LazyEngine engine({4, 2});
  StepQueue queue(engine, {4, 2});
  queue.push(request_of(0), true);
  while (queue.next_result(Results::all)) continue;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto launched = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step < 5; ++step) queue.push(request_of(step), false);
  while (const auto result = queue.next_result(Results::all)) EXPECT_GE(result->finished, launched) << result->step;
}

TEST(StepQueue, ARequestForASyncIsReportedWithItsStep) {
  LazyEngine engine({2, 2});
  engine.pause_at = 1;
  StepQueue queue(engine, {2, 2});
  for (std::int64_t step = 0; step < 3; ++step) queue.push(request_of(step), false);
  EXPECT_FALSE(queue.next_result(Results::all)->sync_requested);
  EXPECT_TRUE(queue.next_result(Results::all)->sync_requested);
  EXPECT_FALSE(queue.next_result(Results::all)->sync_requested);
  EXPECT_FALSE(queue.next_result(Results::all));
}

TEST(StepRingForm, HasAPowerOfTwoOfSlotsThatFit) {
  for (const std::size_t batch : {1, 100, 1024, 3000, 8192, 100000}) {
    for (const std::size_t image : {784, 3072, 150528}) {
      const StepRingForm form = ring_form(batch, image);
      EXPECT_TRUE(std::has_single_bit(form.capacity())) << batch << " of " << image;
      EXPECT_LE(form.block, 16u);
      EXPECT_GE(form.blocks, 2u);
    }
  }
  EXPECT_EQ(ring_form(1024, 3072).block, 8u);  // a block of 10 steps would also fit
}

TEST(StepRingForm, ABlockHasAtMost16PassesAndAtLeastOneStep) {
  EXPECT_EQ(ring_form(32, 784, 1).block, 16u);
  EXPECT_EQ(ring_form(32, 784, 3).block, 4u);
  EXPECT_EQ(ring_form(32, 784, 16).block, 1u);
  EXPECT_EQ(ring_form(32, 784, 100).block, 1u);
}

}  // namespace
}  // namespace carillon::testing
