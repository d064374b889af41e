#include "carillon/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// An optimiser on variables with random contents; the second has no L2 factor.
class OptimizerTest : public ::testing::Test {
 protected:
  void build(std::int64_t count, int threads) {
    omp_set_num_threads(threads);
    optimizer_.reset();
    specs_ = {{"decayed", {count}, {}, 0.01f}, {"plain", {3}, {}, 0.0f}};
    const ParameterLayout layout(specs_);
    parameters_.emplace(specs_, device_, ParameterMemory{.gradients = device_.allocate(gradient_bytes(layout))},
                        optimizer_slots(settings_));
    for (int i = 0; i < 2; ++i) {
      const std::size_t size = layout.count(i);
      upload_floats(device_, random_values(size, 1), parameters_->gradient(i));
      upload_floats(device_, random_values(size, 2), parameters_->value(i));
      upload_floats(device_, random_values(size, 3), parameters_->slot(0, i));
    }
    inputs_.scalars = step_scalars(settings_, 4);
    optimizer_ = make_optimizer(settings_, *parameters_, device_, inputs_);
  }
  void apply(float loss) {
    parameters_->step_sums()[cross_entropy_sum] = loss;
    optimizer_->apply({parameters_->step_sums().data(), {}}, device_.stream());
  }

  OptimizerSettings settings_{.learning_rate = constant_rate(0.1), .moving_average_decay = 0.2};
  CpuDevice device_{1};
  std::vector<ParameterSpec> specs_;
  std::optional<ParameterStore> parameters_;
  StepInputs inputs_;
  std::unique_ptr<Optimizer> optimizer_;
};

TEST_F(OptimizerTest, EqualsTheDefinitionAtEverySizeAndThreadCount) {
  for (const std::int64_t count : {1, 15, 17, 1000, 100003}) {
    for (const int threads : {1, 2, 3}) {
      build(count, threads);
      apply(1.0f);
      for (int i = 0; i < 2; ++i) {
        const std::size_t size = parameters_->layout().count(i);
        const std::vector<float> g = random_values(size, 1), before = random_values(size, 2),
                                 a = random_values(size, 3);
        const auto value = parameters_->value(i).floats(), average = parameters_->slot(0, i).floats();
        for (std::size_t k = 0; k < size; ++k) {
          const double w = before[k] - 0.1 * (g[k] + specs_[static_cast<std::size_t>(i)].l2_factor * before[k]);
          ASSERT_NEAR(value[k], w, 1e-6) << count << ", " << k;
          ASSERT_NEAR(average[k], a[k] - 0.8 * (a[k] - w), 1e-6) << count << ", " << k;
        }
      }
    }
  }
}

TEST_F(OptimizerTest, MomentumIsThatOfTheGradientsWithL2AtEverySizeAndThreadCount) {
  settings_.rule = "momentum";
  settings_.momentum = 0.5;
  for (const std::int64_t count : {1, 17, 100003}) {
    for (const int threads : {1, 3}) {
      build(count, threads);
      apply(1.0f);
      apply(1.0f);
      for (int i = 0; i < 2; ++i) {
        const std::size_t size = parameters_->layout().count(i);
        const std::vector<float> g = random_values(size, 1), before = random_values(size, 2);
        const double l2 = specs_[static_cast<std::size_t>(i)].l2_factor;
        for (std::size_t k = 0; k < size; ++k) {
          const double v1 = g[k] + l2 * before[k], w1 = before[k] - 0.1 * v1;
          const double v2 = 0.5 * v1 + g[k] + l2 * w1, w2 = w1 - 0.1 * v2;
          ASSERT_NEAR(parameters_->slot(1, i).floats()[k], v2, 1e-6) << count << ", " << k;
          ASSERT_NEAR(parameters_->value(i).floats()[k], w2, 1e-6) << count << ", " << k;
        }
      }
    }
  }
}

/// Variables and all slots, gaps included.
std::vector<float> all_of(const ParameterStore& parameters) {
  std::vector<float> all(parameters.values().begin(), parameters.values().end());
  for (std::size_t slot = 0; slot < parameters.slots().size(); ++slot) {
    const auto values = parameters.slot(static_cast<int>(slot));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_F(OptimizerTest, RangeByRangeFromGradientsAnywhereItUpdatesAsAllAtOnceBitForBit) {
  for (const std::string_view rule : {"sgd", "momentum"}) {
    settings_.rule = rule;
    for (const std::int64_t count : {1, 17, 1000}) {
      build(count, 1);
      apply(1.0f);
      const std::vector<float> expected = all_of(*parameters_);
      const std::size_t total = parameters_->layout().total();
      for (const std::size_t range : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{100}, total}) {
        build(count, 1);
        for (std::size_t first = 0; first < total; first += range) {
          const auto own = parameters_->gradients_and_sums().subspan(first, std::min(range, total - first));
          const std::vector<float> elsewhere(own.begin(), own.end());
          std::ranges::fill(own, std::numeric_limits<float>::quiet_NaN());  // it is not to be read
          optimizer_->update(first, elsewhere);
        }
        ASSERT_TRUE(equal_bits(all_of(*parameters_), expected)) << rule << ", " << count << ", " << range;
      }
    }
  }
}

TEST_F(OptimizerTest, ChangesNothingWhereTheLossIsNotFinite) {
  build(20, 1);
  for (const float loss : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    apply(loss);
    const auto value = parameters_->value(0).floats();
    EXPECT_EQ(std::vector<float>(value.begin(), value.end()), random_values(20, 2));
  }
}

TEST_F(OptimizerTest, L2LossIsThatOfTheVariablesWithAFactor) {
  for (const std::int64_t count : {1, 16, 1001}) {
    build(count, 1);
    double expected = 0.0;
    for (const float value : random_values(static_cast<std::size_t>(count), 2)) {
      expected += 0.5 * 0.01f * static_cast<double>(value) * value;
    }
    EXPECT_NEAR(optimizer_->l2_loss(device_.stream()), expected, 1e-9 * expected) << count;
  }
}

TEST(StepScalars, AreTheScheduleAndTheWarmedUpDecay) {
  const OptimizerSettings settings{.learning_rate = exponential_decay({.initial = 0.5, .factor = 0.5}),
                                   .moving_average_decay = 0.99};
  const StepScalars scalars = step_scalars(settings, 1);
  EXPECT_FLOAT_EQ(scalars.at[learning_rate_scalar], 0.25f);
  EXPECT_FLOAT_EQ(scalars.at[average_decay_scalar], 3.0f / 12.0f) << "of two updates applied";
}

TEST(OptimizerSettings, AnUnknownRuleIsAnsweredWithThoseThereAre) {
  try {
    optimizer_slots({.rule = "guess"});
    ADD_FAILURE() << "there is a rule of guessing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("sgd"));
  }
}

}  // namespace
}  // namespace carillon::testing
