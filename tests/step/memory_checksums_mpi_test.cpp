#include "src/step/update/memory_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
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

TEST(MemoryChecksums, FindAFlipOfEachBit) {
  CpuDevice device(1);
  const ParameterStore parameters({{.name = "first", .shape = {9000}}, {.name = "second", .shape = {5}}}, device, {});
  MemoryChecksums sums(parameters, {{"variable", 0, parameters.values()}});
  EXPECT_EQ(change_found_by([&] { sums.check(); }), "") << "nothing is recorded yet";
  sums.record();
  for (int bit = 0; bit < 32; ++bit) {
    float& value = parameters.value(0).floats()[0];
    flip_bit(value, bit);
    EXPECT_EQ(change_found_by([&] { sums.check(); }),
              "variable first or second has changed in memory since the last update; check this host's memory")
        << bit << ": both are in one block";
    flip_bit(value, bit);
    EXPECT_EQ(change_found_by([&] { sums.check(); }), "");
  }
}

TEST(MemoryChecksums, NameTheChangedArray) {
  CpuDevice device(1);
  const ParameterStore parameters({{.name = "first", .shape = {9000}}}, device, {}, {{"momentum"}});
  MemoryChecksums sums(
      parameters, {{"variable", 0, parameters.values()}, {"slot momentum of", 64, parameters.slot(0).subspan(64)}});
  sums.record();
  parameters.slot(0)[100] = 1.0f;
  EXPECT_EQ(change_found_by([&] { sums.check(); }),
            "slot momentum of first has changed in memory since the last update; check this host's memory");
}

class CheckedTowerTest : public ::testing::TestWithParam<bool> {
 protected:
  CheckedTowerTest() {
    if (mpi_world().rank() == 0) tower_.initialize(1);
    tower_.broadcast_from_first();
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

  CpuDevice device_{1};
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

INSTANTIATE_TEST_SUITE_P(Strategies, CheckedTowerTest, ::testing::Bool(),
                         [](const auto& shares) { return shares.param ? "sharded" : "replicated"; });

}  // namespace
}  // namespace carillon::testing
