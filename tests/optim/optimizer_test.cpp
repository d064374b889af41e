#include "src/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "src/optim/update_factors.h"
#include "tests/optim/optimizer_fixture.h"

namespace carillon::testing {
namespace {

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

/// Also tests a frozen variable and the lookahead, which changes the variables.
TEST_F(OptimizerTest, WithoutAveragesKeepsNoneAndChangesTheVariablesAlike) {
  settings_.lookahead = {.every = 2, .decay = 0.25};
  for (const RuleName& rule : update_rules()) {
    if (rule.name.starts_with("muon")) continue;  // muon requires a matrix
    settings_.rule = rule.name;
    for (const bool plain_trains : {true, false}) {
      plain_trains_ = plain_trains;
      std::vector<std::vector<float>> values;
      for (const double decay : {0.2, 0.0}) {
        settings_.moving_average_decay = decay;
        build(1000, 1);
        upload_floats(device_, random_values(1000, 4), slow(0));
        upload_floats(device_, random_values(size_of_plain, 5), slow(1));
        apply_steps(3);
        values.emplace_back(parameters_->values().begin(), parameters_->values().end());
        const bool has_slot = std::ranges::any_of(parameters_->slots(),
                                                  [](const Slot& slot) { return slot.name == moving_average_slot; });
        EXPECT_EQ(has_slot, decay > 0.0);
      }
      EXPECT_EQ(values[0], values[1]) << rule.name;
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

TEST_F(OptimizerTest, ByDefaultMomentumIsTensorFlowsToTheBit) {
  settings_.rule = "momentum";
  build(1000, 1);
  apply(1.0f);
  apply(1.0f);
  const std::vector<float> g = random_values(1000, 1), before = random_values(1000, 2);
  for (std::size_t k = 0; k < g.size(); ++k) {
    float v = 0.0f, w = before[k];
    for (int step = 0; step < 2; ++step) {
      v = std::fma(0.9f, v, std::fma(0.01f, w, g[k]));
      w = std::fma(-0.1f, v, w);
    }
    ASSERT_EQ(value(0, k), w) << k;
  }
}

TEST_F(OptimizerTest, DampeningSparesAVariablesFirstGradient) {
  settings_ = {.rule = "momentum", .learning_rate = constant_rate(0.1), .momentum = 0.5, .dampening = 0.25};
  first_step_ = 0;
  build(17, 1);
  apply_steps(2);
  for (std::size_t k = 0; k < size_of_plain; ++k) {
    const double g = gradient_of_plain_[k], v1 = g, v2 = 0.5 * v1 + 0.75 * g;
    EXPECT_NEAR(slot(1, 1, k), v2, 1e-6);
    EXPECT_NEAR(value(1, k), start_of_plain_[k] - 0.1 * (v1 + v2), 1e-6);
  }
}

TEST_F(OptimizerTest, NesterovLooksAhead) {
  settings_ = {.rule = "nesterov", .learning_rate = constant_rate(0.1), .momentum = 0.5};
  build(17, 1);
  apply_steps(2);
  for (std::size_t k = 0; k < size_of_plain; ++k) {
    const double g = gradient_of_plain_[k], v1 = g, v2 = 0.5 * v1 + g;
    EXPECT_NEAR(slot(1, 1, k), v2, 1e-6);
    EXPECT_NEAR(value(1, k), start_of_plain_[k] - 0.1 * (g + 0.5 * v1 + g + 0.5 * v2), 1e-6);
  }
}

TEST_F(OptimizerTest, AdamWCorrectsItsMomentsForTheirAgeAndDecaysApartFromThem) {
  settings_ = {.rule = "adamw",
               .learning_rate = constant_rate(0.1),
               .adam_epsilon = 0.125,
               .weight_decay = 0.5,
               .decay_exclude = {"none"}};
  first_step_ = 0;
  build(17, 1);
  apply_steps(2);
  for (int i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < parameters_->layout().count(i); ++k) {
      const double gradient = random_values(parameters_->layout().count(i), 1)[k];
      double w = random_values(parameters_->layout().count(i), 2)[k], m = 0.0, v = 0.0;
      for (int u = 1; u <= 2; ++u) {
        const double g = gradient + specs_[static_cast<std::size_t>(i)].l2_factor * w;
        w *= 1.0 - 0.1 * 0.5;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        w -= 0.1 * m / (1.0 - std::pow(0.9, u)) / (std::sqrt(v / (1.0 - std::pow(0.999, u))) + 0.125);
      }
      EXPECT_NEAR(value(i, k), w, 1e-6);
      EXPECT_NEAR(slot(1, i, k), m, 1e-6);
      EXPECT_NEAR(slot(2, i, k), v, 1e-7);
    }
  }
}

TEST_F(OptimizerTest, LooksAheadWhereThatIsDueAtEverySizeAndThreadCount) {
  constexpr double almost_none = 1e-9;
  settings_ = {.learning_rate = constant_rate(0.1), .moving_average_decay = almost_none};
  settings_.groups = {{.pattern = "plain", .frozen_after = 5}};
  settings_.lookahead = {.every = 2, .decay = 0.25};
  for (const std::int64_t count : {1, 17, 100003}) {
    for (const int threads : {1, 3}) {
      build(count, threads);
      for (int i = 0; i < 2; ++i) upload_floats(device_, random_values(parameters_->layout().count(i), 4), slow(i));
      apply_steps(3);  // steps 4, 5 and 6; the lookahead comes at the end of step 5
      for (int i = 0; i < 2; ++i) {
        const std::size_t size = parameters_->layout().count(i);
        const std::vector<float> g = random_values(size, 1), start = random_values(size, 2), s = random_values(size, 4);
        const double l2 = specs_[static_cast<std::size_t>(i)].l2_factor;
        for (std::size_t k = 0; k < size; ++k) {
          const auto step = [&](double w) { return w - 0.1 * (g[k] + l2 * w); };
          const double fast = i == 0 ? step(step(start[k])) : step(start[k]);  // variable 1 is frozen since step 5
          const double behind = s[k] + 0.75 * (fast - s[k]), w = i == 0 ? step(behind) : behind;
          ASSERT_NEAR(slow(i).floats()[k], behind, 1e-6) << count << ", " << k;
          ASSERT_NEAR(value(i, k), w, 1e-6) << count << ", " << k;
          ASSERT_NEAR(slot(0, i, k), value(i, k), 1e-6) << "the moving average is of what it returned to";
        }
      }
    }
  }
}

TEST_F(OptimizerTest, AVariableThatNeverChangesIsNotChangedByALookahead) {
  settings_.groups = {{.pattern = "plain", .rate = 0.0}};
  settings_.lookahead = {.every = 1, .decay = 0.77, .power = 3.0, .steps = 10};
  build(1, 1);
  std::ranges::copy(start_of_plain_, slow(1).floats().begin());
  apply_steps(5);
  for (std::size_t k = 0; k < size_of_plain; ++k) EXPECT_EQ(value(1, k), start_of_plain_[k]);
}

TEST_F(OptimizerTest, RangeByRangeFromGradientsAnywhereItUpdatesAsAllAtOnceBitForBit) {
  for (const std::string_view rule : {"sgd", "momentum", "adamw"}) {
    settings_.rule = rule;
    settings_.groups = {{.pattern = "plain", .rate = 0.5, .frozen_until = 3}};
    settings_.lookahead = {.every = rule == "momentum" ? 1 : 0};
    for (const std::int64_t count : {1, 17, 1000}) {
      build(count, 1);
      apply(1.0f);
      const std::vector<float> expected = all_of(*parameters_);
      const std::size_t total = parameters_->layout().total();
      for (const std::size_t range : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{100}, total}) {
        build(count, 1);
        const auto optimizer = make_elementwise_optimizer(settings_, *parameters_, inputs_);
        for (std::size_t first = 0; first < total; first += range) {
          const auto own = parameters_->gradients_and_sums().subspan(first, std::min(range, total - first));
          const std::vector<float> elsewhere(own.begin(), own.end());
          std::ranges::fill(own, std::numeric_limits<float>::quiet_NaN());  // the optimiser must ignore this value
          optimizer->update_range(first, elsewhere);
        }
        ASSERT_TRUE(equal_bits(all_of(*parameters_), expected)) << rule << ", " << count << ", " << range;
      }
    }
  }
}

TEST_F(OptimizerTest, ARuleThatNeedsWholeVariablesHasNoElementwiseOptimizer) {
  const ParameterStore parameters({}, device_, {});
  for (const std::string_view rule : {"lars", "lamb", "muon"}) {
    settings_.rule = rule;
    EXPECT_FALSE(is_elementwise(settings_)) << rule;
    EXPECT_THROW(make_elementwise_optimizer(settings_, parameters, inputs_), Error) << rule;
  }
}

TEST(Scale, MultipliesEachElementOnceAtAnyThreadCount) {
  CpuDevice device(3);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100003}}) {
    std::vector<float> values = random_values(count, 1), expected = values;
    for (float& value : expected) value *= 0.3f;
    enqueue_scale(values, 0.3f, device);
    EXPECT_TRUE(equal_bits(values, expected)) << count;
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
    EXPECT_NEAR(l2_loss(*parameters_), expected, 1e-9 * expected) << count;
  }
}

TEST(StepScalars, AreTheScheduleAndTheWarmedUpDecay) {
  const OptimizerSettings settings{.learning_rate = exponential_decay({.initial = 0.5, .factor = 0.5}),
                                   .moving_average_decay = 0.99};
  const StepScalars scalars = step_scalars(settings, 1);
  EXPECT_FLOAT_EQ(scalars.at[learning_rate_scalar], 0.25f);
  EXPECT_FLOAT_EQ(scalars.at[average_decay_scalar], 3.0f / 12.0f) << "of two updates applied";
}

TEST(Lookahead, IsAirbenchsWithASlowEndWhereNoneIsDueThere) {
  const LookaheadSettings settings{.every = 5, .decay = std::pow(0.95, 5), .power = 3.0, .steps = 476};
  EXPECT_LT(lookahead_part(settings, 4), 0.0);
  EXPECT_DOUBLE_EQ(lookahead_part(settings, 5), 1.0 - std::pow(0.95, 5) * std::pow(5.0 / 476.0, 3));
  EXPECT_DOUBLE_EQ(lookahead_part(settings, 475), 1.0 - std::pow(0.95, 5) * std::pow(475.0 / 476.0, 3));
  EXPECT_EQ(lookahead_part(settings, 476), 0.0);
  EXPECT_DOUBLE_EQ(lookahead_part(settings, 480), 1.0 - std::pow(0.95, 5));
  EXPECT_LT(lookahead_part({}, 5), 0.0);
  EXPECT_LT(lookahead_part({}, 0), 0.0);
}

TEST(Lookahead, WithoutAPowerIsTheSameAtEveryStep) {
  const LookaheadSettings settings{.every = 6, .decay = 0.5};
  for (const std::int64_t updates : {6, 12, 600}) EXPECT_EQ(lookahead_part(settings, updates), 0.5);
  EXPECT_LT(lookahead_part(settings, 601), 0.0);
}

TEST(OptimizerSettings, NoTwoRulesKeepTheSameSlotsSoThatACheckpointTellsThemApart) {
  std::vector<std::string> all;
  for (const RuleName& rule : update_rules()) {
    std::string names;
    for (const Slot& slot : optimizer_slots({.rule = std::string(rule.name)})) names += slot.name + " ";
    EXPECT_THAT(all, ::testing::Not(::testing::Contains(names))) << rule.name;
    all.push_back(names);
  }
}

TEST(OptimizerSettings, AnUnknownRuleIsAnsweredWithThoseThereAre) {
  try {
    optimizer_slots({.rule = "guess"});
    ADD_FAILURE() << "there is a rule of guessing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("sgd, momentum, nesterov, adamw, lars, lamb"));
  }
}

}  // namespace
}  // namespace carillon::testing
