// OptimizerTest: fixture with a CPU optimiser, its variables and gradients.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <memory>
#include <optional>

#include "src/device/cpu_device.h"
#include "src/optim/optimizer.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

/// Has an optimiser and two variables with random values and gradients. The second variable has no L2 factor.
class OptimizerTest : public ::testing::Test {
 protected:
  void build(std::int64_t count, int threads) {
    omp_set_num_threads(threads);
    optimizer_.reset();
    specs_ = {{"decayed", {count}, {}, l2_factor_}, {"plain", {3}, {}, 0.0f, plain_trains_}};
    const ParameterLayout layout(specs_);
    parameters_.emplace(specs_, device_, ParameterMemory{.gradients = device_.allocate(gradient_bytes(layout))},
                        optimizer_slots(settings_));
    for (int i = 0; i < 2; ++i) {
      const std::size_t size = layout.count(i);
      upload_floats(device_, random_values(size, 1), parameters_->gradient(i));
      upload_floats(device_, random_values(size, 2), parameters_->value(i));
      if (settings_.moving_average_decay == 0.0) continue;
      upload_floats(device_, random_values(size, 3),
                    parameters_->slot(parameters_->slot_named(moving_average_slot), i));
    }
    inputs_.scalars = step_scalars(settings_, first_step_);
    optimizer_ = make_optimizer(settings_, *parameters_, device_, inputs_);
  }
  /// Applies `count` steps: first_step_, first_step_ + 1, ... The gradients are the same in all steps.
  void apply_steps(int count) {
    for (int k = 0; k < count; ++k) {
      inputs_.scalars = step_scalars(settings_, first_step_ + k);
      apply(1.0f);
    }
  }
  float value(int parameter, std::size_t i) const { return parameters_->value(parameter).floats()[i]; }
  float slot(int slot, int parameter, std::size_t i) const { return parameters_->slot(slot, parameter).floats()[i]; }
  Tensor slow(int parameter) const { return parameters_->slot(parameters_->slot_named(lookahead_slot), parameter); }
  static constexpr std::size_t size_of_plain = 3;
  const std::vector<float> gradient_of_plain_ = random_values(3, 1), start_of_plain_ = random_values(3, 2);

  void apply(float loss) {
    parameters_->step_sums()[loss_sum] = loss;
    optimizer_->apply({parameters_->step_sums().data(), {}}, device_.stream());
  }

  OptimizerSettings settings_{.learning_rate = constant_rate(0.1), .moving_average_decay = 0.2};
  CpuDevice device_{1};
  std::vector<ParameterSpec> specs_;
  std::optional<ParameterStore> parameters_;
  StepInputs inputs_;
  std::int64_t first_step_ = 4;
  float l2_factor_ = 0.01f;
  bool plain_trains_ = true;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Returns the values of the variables and of all slots, including the gaps between variables.
inline std::vector<float> all_of(const ParameterStore& parameters) {
  std::vector<float> all(parameters.values().begin(), parameters.values().end());
  for (std::size_t slot = 0; slot < parameters.slots().size(); ++slot) {
    const auto values = parameters.slot(static_cast<int>(slot));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace carillon::testing
