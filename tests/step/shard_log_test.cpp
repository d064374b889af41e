#include "src/step/update/shard_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "src/device/cpu_device.h"
#include "tests/support/float_arrays.h"

namespace carillon::testing {
namespace {

constexpr int ranks = 3;
std::size_t slots = 0;  ///< number of the optimiser's slots
const std::vector<ParameterSpec> variables{{.name = "first", .shape = {7001}}, {.name = "second", .shape = {33}}};
const ParameterLayout layout(variables);

ShardLog::Form form_of(std::size_t threads) {
  return {.count = layout.total(), .slots = slots, .ranks = ranks, .threads = threads};
}

/// The memory of a host. Each rank has an array with its values and its log, and all ranks share the slots.
struct Host {
  std::vector<std::vector<std::byte>> arrays{ranks};
  std::vector<float> slots_of_all = std::vector<float>(slots * layout.total(), 1.0f);

  Host() {
    for (std::vector<std::byte>& array : arrays) array.resize(value_bytes(layout) + ShardLog::bytes(form_of(2)) + 64);
  }
  std::byte* array(int rank) {
    std::byte* const begin = arrays[static_cast<std::size_t>(rank)].data();
    return begin + (64 - reinterpret_cast<std::uintptr_t>(begin) % 64) % 64;
  }
};

/// The SharedHostMemory of one rank on a Host.
class Memory final : public SharedHostMemory {
 public:
  Memory(Host& host, int rank) : host_(host), rank_(rank) {}
  Buffer allocate(std::size_t) override { return {}; }
  void meet() override {}
  void meet_after_update(const std::function<void(int)>&) override {}
  int rank() const override { return rank_; }
  int size() const override { return ranks; }
  std::byte* on_rank(int rank, std::byte* own) const override { return host_.array(rank) + (own - host_.array(rank_)); }
  void means_of(std::span<const float>, const TakeMeans&) const override {}
  void gather(std::span<float>) const override {}

 private:
  Host& host_;
  int rank_;
};

/// A rank with its parameters and its log.
struct Rank {
  CpuDevice device{1};
  Memory memory;
  ParameterStore parameters;
  ShardLog log;

  Rank(Host& host, int rank, std::size_t threads = 2)
      : memory(host, rank),
        parameters(variables, device,
                   {.gradients = {},
                    .values = Buffer(host.array(rank), value_bytes(layout), [](void*) {}),
                    .slots = Buffer(host.slots_of_all.data(), slots * value_bytes(layout), [](void*) {})},
                   std::vector<Slot>(slots, {"slot"})),
        log(form_of(threads), host.array(rank) + value_bytes(layout), parameters, memory) {
    std::ranges::fill(parameters.values(), 1.0f);
    log.begin();
  }

  /// Adds `change` to `count` variables, beginning at element `first` of the owner's shard, and to the elements of all
  /// slots that belong to these variables.
  void add(int owner, std::size_t first, std::size_t count, float change) const {
    const std::size_t begin = memory.shard(layout.total(), owner).begin + first;
    for (std::size_t i = begin; i < begin + count; ++i) {
      parameters.values()[i] += change;
      for (std::size_t slot = 0; slot < slots; ++slot) parameters.slot(static_cast<int>(slot))[i] += change;
    }
  }
  /// Completely updates the block of the owner's shard that begins at element `first`.
  void update(int owner, std::size_t first) {
    const Slice shard = memory.shard(layout.total(), owner);
    const std::size_t count = std::min(sum_block_floats, shard.end - shard.begin - first);
    log.update_block(owner, first, [&] { add(owner, first, count, 1.0f); });
  }
  /// Changes a part of the block that begins at element `first`, then throws an exception, as if the process had ended.
  void end_within(int owner, std::size_t first) {
    const auto begin_and_end = [&] {
      add(owner, first, 100, 50.0f);
      throw std::runtime_error("the process ends");
    };
    EXPECT_THROW(log.update_block(owner, first, begin_and_end), std::runtime_error);
  }
  /// Updates the blocks of the owner's shard that the owner has not updated.
  void finish(int owner) {
    log.restore_open_blocks(owner);
    const Slice shard = memory.shard(layout.total(), owner);
    for (std::size_t first = 0; first < shard.end - shard.begin; first += sum_block_floats) update(owner, first);
  }
};

/// Returns whether `rank` sees exactly `updates` updates of all values and slots in the shard of `owner`.
bool has_updates(const Host& host, const Rank& rank, int owner, float updates) {
  const Slice shard = rank.memory.shard(layout.total(), owner);
  const auto all = [&](const float* first) {
    return std::all_of(first + shard.begin, first + shard.end, [&](float x) { return x == 1.0f + updates; });
  };
  bool has = all(rank.parameters.values().data());
  for (std::size_t slot = 0; slot < slots; ++slot) has = has && all(host.slots_of_all.data() + slot * layout.total());
  return has;
}

class ShardLogTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { slots = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Slots, ShardLogTest, ::testing::Values(0, 2));

TEST_P(ShardLogTest, AShardThatNobodyBeganIsUpdatedByAnotherRank) {
  Host host;
  Rank ended(host, 2), other(host, 0);
  other.finish(2);
  EXPECT_TRUE(has_updates(host, other, 2, 1.0f));
  EXPECT_TRUE(has_updates(host, ended, 2, 1.0f)) << "other ranks gather the values from the rank that has ended";
}

TEST_P(ShardLogTest, ABlockThatWasInterruptedIsUpdatedFromItsOldSlots) {
  Host host;
  Rank ended(host, 2), other(host, 0);
  ended.update(2, 0);
  ended.end_within(2, sum_block_floats);
  other.finish(2);
  EXPECT_TRUE(has_updates(host, ended, 2, 1.0f));
}

TEST_P(ShardLogTest, AShardIsFinishedEvenIfTheRankThatFinishesItEnds) {
  Host host;
  Rank ended(host, 2), finisher(host, 0), last(host, 1);
  ended.end_within(2, 0);
  finisher.log.restore_open_blocks(2);
  finisher.update(2, 0);
  finisher.end_within(2, sum_block_floats);
  last.finish(2);
  EXPECT_TRUE(has_updates(host, ended, 2, 1.0f));
}

TEST_P(ShardLogTest, ABlockThatIsMarkedIsNotUpdatedAgain) {
  Host host;
  Rank ended(host, 1), other(host, 0);
  ended.finish(1);
  other.finish(1);
  EXPECT_TRUE(has_updates(host, ended, 1, 1.0f));
}

TEST_P(ShardLogTest, TheLogOfAnEarlierUpdateRestoresNothing) {
  Host host;
  Rank ended(host, 2), other(host, 0);
  ended.finish(2);
  const Slice shard = other.memory.shard(layout.total(), 2);
  const auto updated = ended.parameters.values().subspan(shard.begin, shard.end - shard.begin);
  // Copies the updated shard to the other rank, as an all-gather does.
  std::ranges::copy(updated, other.parameters.values().begin() + static_cast<long>(shard.begin));
  for (Rank* const rank : {&ended, &other}) rank->log.begin();
  other.finish(2);
  EXPECT_TRUE(has_updates(host, ended, 2, 2.0f));
}

TEST_P(ShardLogTest, ARankIsBehindOnceAnotherChangesSlotsInTheNextUpdate) {
  Host host;
  Rank first(host, 0), second(host, 1);
  first.update(0, 0);
  EXPECT_FALSE(second.log.another_rank_is_ahead());
  first.log.begin();
  EXPECT_FALSE(second.log.another_rank_is_ahead()) << "no slot has changed yet";
  first.update(0, 0);
  EXPECT_TRUE(second.log.another_rank_is_ahead());
  EXPECT_FALSE(first.log.another_rank_is_ahead());
}

TEST_P(ShardLogTest, RanksMayHaveDifferentNumbersOfThreads) {
  Host host;
  Rank ended(host, 2, 1), other(host, 0, 2);
  ended.end_within(2, 0);
  other.finish(2);
  EXPECT_TRUE(has_updates(host, ended, 2, 1.0f));
}

}  // namespace
}  // namespace carillon::testing
