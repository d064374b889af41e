#include "src/step/update/memory_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "src/step/update/buffer_check.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"

namespace carillon::testing {
namespace {

void flip_bit(float& value, int bit) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  word ^= 1u << bit;
  std::memcpy(&value, &word, sizeof(word));
}

/// The message of the ChangedInMemory that `call` throws; empty: none.
template <typename Call>
std::string change_found_by(const Call& call) {
  try {
    call();
  } catch (const ChangedInMemory& error) {
    return error.what();
  }
  return "";
}

void begin(Tower& tower) {
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
}

TEST(MemoryChecksums, FindAFlipOfEachBit) {
  CpuDevice device(1);
  const ParameterStore parameters({{.name = "first", .shape = {9000}}, {.name = "second", .shape = {5}}}, device, {});
  const Slice all{0, parameters.values().size()};
  for (int bit = 0; bit < 32; ++bit) {
    MemoryChecksums sums(parameters, {all});
    sums.record(all);
    sums.compare(all);
    EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }), "");
    flip_bit(parameters.value(0).floats()[0], bit);
    sums.compare(all);
    EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }),
              "variable first or second has changed in memory since the last update; check this host's memory")
        << bit << ": both are in one block";
  }
}

TEST(MemoryChecksums, NameTheChangedArray) {
  CpuDevice device(1);
  const ParameterStore parameters({{.name = "first", .shape = {9000}}}, device, {}, {{"momentum"}});
  const Slice part{64, 64 + 3000};
  MemoryChecksums sums(parameters, {{0, 64}, part});
  sums.record(part);
  parameters.slot(0)[63] = parameters.slot(0)[64 + 3000] = 1.0f;
  sums.compare(part);
  EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }), "") << "other elements";
  parameters.slot(0)[64 + 2999] = 1.0f;
  sums.compare(part, MemoryChecksums::Arrays::values);
  EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }), "") << "the values are unchanged";
  sums.compare(part);
  EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }),
            "slot momentum of first has changed in memory since the last update; check this host's memory");
}

TEST(MemoryChecksums, NameOnlyVariablesOfTheBlock) {
  CpuDevice device(1);
  const ParameterStore parameters({{.name = "first", .shape = {10}}, {.name = "second", .shape = {9000}}}, device, {});
  const ParameterLayout& layout = parameters.layout();
  std::vector<Slice> parts;
  for (const int parameter : layout.order()) {
    parts.push_back({layout.offset(parameter), layout.offset(parameter) + layout.count(parameter)});
  }
  MemoryChecksums sums(parameters, parts);
  for (const Slice part : parts) sums.record(part);
  flip_bit(parameters.value(1).floats().back(), 3);
  for (const Slice part : parts) sums.compare(part);
  EXPECT_EQ(change_found_by([&] { sums.require_unchanged(); }),
            "variable second has changed in memory since the last update; check this host's memory");
}

class CheckedTowerTest : public ::testing::TestWithParam<bool> {
 protected:
  CheckedTowerTest() {
    begin(tower_);
    take_steps(2);
  }

  void take_steps(int count) {
    for (int step = 0; step < count; ++step) {
      tower_.step({.step = step, .batch = NoiseBatch(static_cast<std::uint64_t>(step), 2, 784).batch()});
    }
  }
  std::string change() {
    return change_found_by([&] { tower_.synchronize_buffers(); });
  }

  CpuDevice device_{1 + mpi_world().rank() % 2};  // ranks may have different numbers of threads
  std::unique_ptr<Communicator> communicator_ =
      GetParam() ? make_communicator(mpi_world(), device_) : std::make_unique<WithoutSharedHostMemory>(device_);
  Tower tower_{mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f})),
               ten_classes(),
               {.batch_size = 2,
                .optimizer = {.rule = "momentum", .learning_rate = constant_rate(0.1), .moving_average_decay = 0.5},
                .checks_memory = true},
               device_,
               *communicator_};
};

TEST_P(CheckedTowerTest, UndisturbedStepsReportNoChange) {
  EXPECT_EQ(change(), "");
  take_steps(1);
  EXPECT_EQ(change(), "");
  mpi_world().barrier();
}

TEST_P(CheckedTowerTest, OnlyTheRankWithTheChangedVariableReportsIt) {
  const int rank = mpi_world().rank(), last = mpi_world().size() - 1;
  if (rank == last) flip_bit(tower_.parameters().value(0).floats()[3], 5);
  EXPECT_EQ(change().starts_with("variable "), rank == last);
  mpi_world().barrier();
}

TEST_P(CheckedTowerTest, ExactlyOneRankReportsAChangedSlot) {
  for (std::size_t slot = 0; slot < tower_.slots().size(); ++slot) {
    const std::span<float> values = tower_.slot(static_cast<int>(slot));
    mpi_world().barrier();
    if (mpi_world().rank() == 0) flip_bit(values[values.size() / 2], 30);
    mpi_world().barrier();
    const std::string found = change();
    const std::vector<std::string> all = mpi_world().all_gather(found);
    EXPECT_EQ(std::ranges::count(all, ""), mpi_world().size() - 1) << "the rank that updates this part";
    EXPECT_TRUE(found.empty() || found.starts_with("slot " + tower_.slots()[slot].name));
    mpi_world().barrier();
    if (mpi_world().rank() == 0) flip_bit(values[values.size() / 2], 30);
  }
  mpi_world().barrier();
}

TEST_P(CheckedTowerTest, AStepFindsAChangeInTheFirstShard) {
  mpi_world().barrier();  // the ranks have copied each other's shards
  flip_bit(tower_.parameters().value(3).floats().front(), 7);
  EXPECT_TRUE(change_found_by([&] { take_steps(1); }).starts_with("variable "));
  mpi_world().barrier();
}

TEST_P(CheckedTowerTest, AStepFindsAChangeInTheLastShard) {
  mpi_world().barrier();  // the ranks have copied each other's shards
  flip_bit(tower_.parameters().value(0).floats().front(), 7);
  EXPECT_TRUE(change_found_by([&] { take_steps(1); }).starts_with("variable "));
  mpi_world().barrier();
}

TEST_P(CheckedTowerTest, AChangeThatMakesTheLossNotFiniteIsNamed) {
  mpi_world().barrier();  // the ranks have copied each other's shards
  for (float& bias : tower_.parameters().value(3).floats()) bias = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(change_found_by([&] { take_steps(1); }).starts_with("variable "));
  mpi_world().barrier();
}

INSTANTIATE_TEST_SUITE_P(Strategies, CheckedTowerTest, ::testing::Bool(),
                         [](const auto& shares) { return shares.param ? "sharded" : "replicated"; });

/// Flips a bit of a running statistic after the forward pass.
class StatisticFlippingCommunicator final : public WithoutSharedHostMemory {
 public:
  using WithoutSharedHostMemory::WithoutSharedHostMemory;
  void acquire(Stream& stream) override {
    if (changes != nullptr) flip_bit(*changes, 20);
    WithoutSharedHostMemory::acquire(stream);
  }
  float* changes = nullptr;
};

constexpr std::string_view changed_statistic =
    "a running statistic has changed in memory since the last update; check this host's memory";

/// `micro_batch`: 0 for none.
class CheckedBuffers : public ::testing::TestWithParam<std::int64_t> {
 protected:
  CheckedBuffers() { begin(tower_); }
  std::string change_found_in_step(int number) {
    const NoiseBatch samples(0, 2, 784);
    return change_found_by([&] { tower_.step({.step = number, .batch = samples.batch()}); });
  }

  CpuDevice device_{1};
  TowerSettings settings_{.batch_size = 2,
                          .micro_batch = GetParam(),
                          .optimizer = {.learning_rate = constant_rate(0.1)},
                          .checks_memory = true};
  StatisticFlippingCommunicator communicator_{device_, {}, averaging_of(settings_, mpi_world().size())};
  Tower tower_{normalized_network(), smoothed_classes(), settings_, device_, communicator_};
};

TEST_P(CheckedBuffers, AChangeAfterTheForwardPassIsFound) {
  EXPECT_EQ(change_found_in_step(0), "");
  communicator_.changes = &tower_.buffers().values().front();
  EXPECT_EQ(change_found_in_step(1), changed_statistic);
  mpi_world().barrier();
}

TEST_P(CheckedBuffers, AChangeBetweenTwoStepsIsFound) {
  EXPECT_EQ(change_found_in_step(0), "");
  flip_bit(tower_.buffers().values().back(), 0);
  EXPECT_EQ(change_found_in_step(1), changed_statistic);
  mpi_world().barrier();
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, CheckedBuffers, ::testing::Values(0, 1),
                         [](const auto& size) { return size.param == 0 ? "whole_batch" : "micro_batches"; });

TEST(BufferCheck, ComparesValuesAndSlowCopies) {
  CpuDevice device(1);
  const std::vector<BufferSpec> specs{{.name = "mean", .shape = {5}}};
  const BufferStore values(specs, device), slow(specs, device), completed(specs, device), completed_slow(specs, device);
  BufferCheck check({values, slow}, {completed, completed_slow});
  check.compare_with_completed();
  flip_bit(values.values()[2], 9);
  EXPECT_EQ(change_found_by([&] { check.compare_with_completed(); }), changed_statistic);
  check.record();
  check.compare_with_recorded();
  flip_bit(slow.values()[4], 9);
  for (const bool recorded : {false, true}) {
    EXPECT_EQ(change_found_by([&] { recorded ? check.compare_with_recorded() : check.compare_with_completed(); }),
              recorded
                  ? "a lookahead copy of a running statistic has changed in memory since the last update; check this "
                    "host's memory"
                  : changed_statistic);
  }
}

Tower checked_tower(Device& device, Communicator& communicator) {
  return {mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f})),
          ten_classes(),
          {.batch_size = 2, .optimizer = {.learning_rate = constant_rate(0.1)}, .checks_memory = true},
          device,
          communicator};
}

/// Flips a bit of a variable after its update, before other ranks copy it.
class VariableFlippingCommunicator final : public ForwardingCommunicator {
 public:
  explicit VariableFlippingCommunicator(Device& device)
      : ForwardingCommunicator(device), memory_(*ForwardingCommunicator::shared_host_memory()) {}
  SharedHostMemory* shared_host_memory() override { return &memory_; }
  /// Flips a bit of `value` in every update from now on.
  void change(float& value) { memory_.changes = &value; }

 private:
  struct Memory final : ForwardingMemory {
    using ForwardingMemory::ForwardingMemory;
    void meet_after_update(const std::function<void(int rank)>& finish) override {
      ForwardingMemory::meet_after_update(finish);
      if (changes != nullptr) flip_bit(*changes, 3);
      meet();
    }
    float* changes = nullptr;
  };

  Memory memory_;
};

TEST(CheckedShards, AChangeBetweenTheUpdateAndTheCopyIsFound) {
  CpuDevice device(1);
  VariableFlippingCommunicator communicator(device);
  Tower tower = checked_tower(device, communicator);
  begin(tower);
  const auto step = [&](int number) { tower.step({.step = number, .batch = NoiseBatch(0, 2, 784).batch()}); };
  EXPECT_EQ(change_found_by([&] { step(0); }), "");
  const std::size_t shard = tower.parameters().values().size() / static_cast<std::size_t>(mpi_world().size());
  communicator.change(tower.parameters().values()[shard * static_cast<std::size_t>(mpi_world().rank()) + shard / 2]);
  const std::string found = change_found_by([&] { step(1); });
  EXPECT_EQ(found.starts_with("variable "), mpi_world().size() > 1) << found;
  mpi_world().barrier();
}

class ChangeOnOneRank : public ::testing::TestWithParam<bool> {};

TEST_P(ChangeOnOneRank, LetsNoRankCompleteTheStep) {
  if (mpi_world().size() == 1) return;
  CpuDevice device(1);
  const WaitLimit limit{.seconds = 0.5};
  const std::unique_ptr<Communicator> communicator = GetParam()
                                                         ? make_communicator(mpi_world(), device, "auto", limit)
                                                         : std::make_unique<WithoutSharedHostMemory>(device, limit);
  Tower tower = checked_tower(device, *communicator);
  begin(tower);
  mpi_world().barrier();
  const std::span<float> values = tower.parameters().values();
  if (mpi_world().rank() == 0) flip_bit(values.front(), 4);
  std::string found;
  try {
    tower.step({.step = 0, .batch = NoiseBatch(0, 2, 784).batch()});
  } catch (const Error& error) {
    found = error.what();
  }
  EXPECT_THAT(found, ::testing::HasSubstr(mpi_world().rank() == 0 ? "has changed in memory" : "waited 0.5 s for rank"));
  EXPECT_EQ(tower.completed_steps(), 0);
  mpi_world().barrier();
}

INSTANTIATE_TEST_SUITE_P(Strategies, ChangeOnOneRank, ::testing::Bool(),
                         [](const auto& shares) { return shares.param ? "sharded" : "replicated"; });

}  // namespace
}  // namespace carillon::testing
