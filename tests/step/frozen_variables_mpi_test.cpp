// Tests of the work that a tower skips if parameter groups of the optimiser freeze variables.
#include <gtest/gtest.h>

#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t own_batch = 4;
constexpr int first_frozen_step = 2;

/// Trains normalized_network, in which a branch follows the op "stem". The parameter is the micro-batch; 0: none.
class FrozenVariables : public ::testing::TestWithParam<std::int64_t> {
 protected:
  TowerSettings settings_with(ParameterGroup group) const {
    return {.batch_size = own_batch,
            .micro_batch = GetParam(),
            .optimizer = {.rule = "momentum", .learning_rate = constant_rate(0.1), .groups = {std::move(group)}}};
  }

  std::unique_ptr<Communicator> communicator_for(const TowerSettings& settings) {
    const Averaging averaging = averaging_of(settings, mpi_world().size());
    return make_communicator(mpi_world(), device_, "auto", {}, averaging);
  }

  static void take_steps(Tower& tower, int first, int last) {
    for (int step = first; step < last; ++step) {
      const std::int64_t position = own_batch * (step * mpi_world().size() + mpi_world().rank());
      const NoiseBatch samples(static_cast<std::uint64_t>(position), own_batch, 784);
      tower.step({.step = step, .batch = samples.batch()});
      EXPECT_TRUE(tower.next_result(Results::all));
    }
    tower.synchronize_buffers();
  }

  static std::vector<float> values(const Tower& tower) {
    std::vector<float> all(tower.parameters().values().begin(), tower.parameters().values().end());
    all.insert(all.end(), tower.buffers().values().begin(), tower.buffers().values().end());
    return all;
  }

  CpuDevice device_{2};
};

const ParameterGroup freezes_stem{.pattern = "stem/*", .frozen_after = first_frozen_step};

/// One tower freezes the stem. The other tower computes the stem's gradients, but updates the stem with a learning rate
/// of 0.
TEST_P(FrozenVariables, LeaveTheOthersGradientsAsTheyAre) {
  const TowerSettings freezing = settings_with(freezes_stem),
                      standing = settings_with({.pattern = "stem/*", .rate = 0.0, .decay = 0.0});
  const auto of_freezing = communicator_for(freezing), of_standing = communicator_for(standing);
  Tower tower(normalized_network(), smoothed_classes(), freezing, device_, *of_freezing);
  Tower other(normalized_network(), smoothed_classes(), standing, device_, *of_standing);
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  take_steps(tower, 0, first_frozen_step);
  LoadedCheckpoint saved;
  tower.save(saved.state);
  if (mpi_world().rank() == 0) other.restore(saved);
  other.broadcast_from_first();
  take_steps(tower, first_frozen_step, 5);
  take_steps(other, first_frozen_step, 5);
  EXPECT_TRUE(equal_bits(values(tower), values(other)));
}

TEST_P(FrozenVariables, HaveNoGradientsWhileTheyAre) {
  const TowerSettings settings = settings_with(freezes_stem);
  const auto communicator = communicator_for(settings);
  Tower tower(normalized_network(), smoothed_classes(), settings, device_, *communicator);
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  const auto has_gradient = [&](int parameter) {
    const auto gradient = tower.parameters().gradient(parameter).floats();
    return std::ranges::any_of(gradient, [](float g) { return g != 0.0f; });
  };
  for (int step = 0; step < 4; ++step) {
    take_steps(tower, step, step + 1);
    for (std::size_t i = 0; i < tower.parameters().specs().size(); ++i) {
      const std::string& name = tower.parameters().specs()[i].name;
      const bool trains = step < first_frozen_step || !name.starts_with("stem");
      EXPECT_EQ(has_gradient(static_cast<int>(i)), trains) << name << " in step " << step;
    }
  }
}

TEST_P(FrozenVariables, HaveTheirGradientsBackWhenTheyTrainAgain) {
  const TowerSettings settings = settings_with({.pattern = "stem/*", .frozen_until = first_frozen_step});
  const auto communicator = communicator_for(settings);
  Tower tower(normalized_network(), smoothed_classes(), settings, device_, *communicator);
  if (mpi_world().rank() == 0) tower.initialize(1);
  tower.broadcast_from_first();
  const auto stem = [&] {
    const auto weights = tower.parameters().value(0).floats();
    return std::vector<float>(weights.begin(), weights.end());
  };
  const std::vector<float> at_first = stem();
  take_steps(tower, 0, first_frozen_step);
  EXPECT_TRUE(equal_bits(stem(), at_first));
  take_steps(tower, first_frozen_step, first_frozen_step + 1);
  EXPECT_FALSE(equal_bits(stem(), at_first));
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, FrozenVariables, ::testing::Values(0, 2));

}  // namespace
}  // namespace carillon::testing
