#include "carillon/optim/optimizer_settings.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "src/optim/update_factors.h"
#include "tests/optim/optimizer_fixture.h"

namespace carillon::testing {
namespace {

using ParameterGroups = OptimizerTest;

TEST_F(ParameterGroups, TheFirstGroupThatMatchesSetsRateAndDecay) {
  for (const std::string_view rule : {"sgd", "momentum", "adamw"}) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .weight_decay = 0.5};
    // "none" excludes no variable; the default would exclude vectors, and both variables are vectors.
    settings_.decay_exclude = {"none"};
    settings_.groups = {{.pattern = "pl*n", .rate = 2.0, .decay = 0.25}, {.pattern = "*", .rate = 0.5}};
    build(17, 1);
    apply_steps(3);
    const std::vector<float> grouped = all_of(*parameters_);
    for (int i = 0; i < 2; ++i) {  // compares with a run without groups, in which both variables have the values of the
                                   // group
      const auto found = parameters_->value(i).floats();
      const std::vector<float> of_group(found.begin(), found.end());
      const OptimizerSettings groups = settings_;
      settings_.groups.clear();
      settings_.learning_rate = constant_rate(i == 1 ? 0.2 : 0.05);
      settings_.weight_decay = i == 1 ? 0.25 : 0.5;
      build(17, 1);
      apply_steps(3);
      const auto expected = parameters_->value(i).floats();
      for (std::size_t k = 0; k < of_group.size(); ++k) EXPECT_NEAR(of_group[k], expected[k], 1e-6) << rule;
      settings_ = groups;
      build(17, 1);
      apply_steps(3);
    }
    EXPECT_TRUE(equal_bits(all_of(*parameters_), grouped));
  }
}

TEST_F(ParameterGroups, AFrozenVariableKeepsValueAndSlotsWhileItsAverageContinues) {
  for (const std::string_view rule : {"sgd", "momentum", "adamw"}) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .moving_average_decay = 0.2};
    settings_.groups = {{.pattern = "plain", .frozen_until = 2, .frozen_after = 4}};
    first_step_ = 0;
    build(17, 1);
    std::vector<float> values, slots, distances;
    for (int step = 0; step < 6; ++step) {
      inputs_.scalars = step_scalars(settings_, step);
      apply(1.0f);
      values.push_back(value(1, 0));
      slots.push_back(rule == "sgd" ? value(1, 0) : slot(1, 1, 0));
      distances.push_back(std::abs(slot(0, 1, 0) - value(1, 0)));
    }
    EXPECT_EQ(values[1], start_of_plain_[0]) << rule;
    EXPECT_NE(values[2], values[1]) << rule;
    EXPECT_NE(values[3], values[2]) << rule;
    EXPECT_EQ(values[5], values[3]) << rule;
    EXPECT_EQ(slots[5], slots[3]) << rule;
    EXPECT_LT(distances[5], 0.5f * distances[3]) << rule;
  }
}

TEST_F(ParameterGroups, AVariableThatDoesNotTrainStaysAsItBeganInAnyGroup) {
  plain_trains_ = false;
  for (const std::string_view rule : {"sgd", "nesterov", "lars"}) {
    for (const std::int64_t frozen_until : {0, 5}) {
      settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .weight_decay = 0.1};
      settings_.groups = {{.pattern = "plain", .rate = 2.0, .frozen_until = frozen_until}};
      build(17, 1);
      const float other = value(0, 0);
      apply_steps(3);
      for (std::size_t k = 0; k < size_of_plain; ++k) EXPECT_EQ(value(1, k), start_of_plain_[k]) << rule;
      EXPECT_NE(value(0, 0), other) << rule;
    }
  }
}

TEST_F(ParameterGroups, AVariableThatWasFrozenStartsAsYoungAsOneAtStepZero) {
  for (const std::string_view rule : {"momentum", "adamw"}) {
    settings_ = {.rule = std::string(rule), .learning_rate = constant_rate(0.1), .dampening = 0.5};
    first_step_ = 0;
    build(17, 1);
    apply_steps(2);
    const std::vector<float> expected(parameters_->value(1).floats().begin(), parameters_->value(1).floats().end());
    settings_.groups = {{.pattern = "plain", .frozen_until = 7}};
    build(17, 1);
    apply_steps(9);
    for (std::size_t k = 0; k < size_of_plain; ++k) EXPECT_EQ(value(1, k), expected[k]) << rule;
  }
}

TEST_F(ParameterGroups, AGroupThatMatchesNothingIsRefusedWithTheNamesThereAre) {
  settings_.groups = {{.pattern = "*ed"}, {.pattern = "plai"}};
  try {
    build(17, 1);
    ADD_FAILURE() << "a group of nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'plai' matches no variable; there are: decayed, plain"));
  }
}

TEST_F(ParameterGroups, ThatComeBehindOthersOfAllTheirVariablesAreRefused) {
  settings_.groups = {{.pattern = "*"}, {.pattern = "plain", .rate = 2.0}};
  try {
    build(17, 1);
    ADD_FAILURE() << "a group that never counts";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("earlier patterns match all variables of 'plain'"));
  }
}

/// Tests which of three variables have weight decay. The variables are a matrix, a vector, and a matrix of another
/// layer.
class DecayExclusion : public ::testing::Test {
 protected:
  std::vector<float> decays() const {
    std::vector<float> all;
    for (const UpdateFactors& factors : update_factors(settings_, variables_)) all.push_back(factors.weight_decay);
    return all;
  }
  void expect_refused(const std::string& said) const {
    try {
      check_variables(settings_, variables_);
      ADD_FAILURE() << said << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(said));
    }
  }
  OptimizerSettings settings_{.weight_decay = 0.5};
  const std::vector<ParameterSpec> variables_ = {{"first/weights", {3, 3, 1, 8}},
                                                 {"first/norm/gamma", {8}},
                                                 {"second/weights", {8, 4}},
                                                 {"third/weights", {4, 2}}};
};

TEST_F(DecayExclusion, IsOfVectorsByDefaultWithAdamWLarsAndLamb) {
  for (const std::string_view rule : {"adamw", "lars", "lamb"}) {
    settings_.rule = rule;
    EXPECT_EQ(decays(), (std::vector{0.5f, 0.0f, 0.5f, 0.5f})) << rule;
  }
  for (const std::string_view rule : {"sgd", "momentum", "nesterov", "muon", "muon-nesterov"}) {
    settings_.rule = rule;
    EXPECT_EQ(decays(), (std::vector{0.5f, 0.5f, 0.5f, 0.5f})) << rule;
  }
}

TEST_F(DecayExclusion, AddsPatternsToTheDefaultUnlessNoneIsAmongThem) {
  for (const std::string_view rule : {"adamw", "lars", "lamb"}) {
    settings_.rule = rule;
    settings_.decay_exclude = {"second/*"};
    EXPECT_EQ(decays(), (std::vector{0.5f, 0.0f, 0.0f, 0.5f})) << rule;
    settings_.decay_exclude = {"none"};
    EXPECT_EQ(decays(), (std::vector{0.5f, 0.5f, 0.5f, 0.5f})) << rule;
    settings_.decay_exclude = {"none", "second/*"};
    EXPECT_EQ(decays(), (std::vector{0.5f, 0.5f, 0.0f, 0.5f})) << rule;
  }
  settings_ = {.rule = "muon", .weight_decay = 0.5, .decay_exclude = {"*/gamma", "second/*"}};
  EXPECT_EQ(decays(), (std::vector{0.5f, 0.0f, 0.0f, 0.5f}));
}

TEST_F(DecayExclusion, YieldsToTheDecayOfAGroupOnlyWhereItIsTheDefault) {
  settings_.rule = "adamw";
  settings_.groups = {{.pattern = "*/gamma", .decay = 0.25}, {.pattern = "second/*", .decay = 0.0}};
  EXPECT_EQ(decays(), (std::vector{0.5f, 0.25f, 0.0f, 0.5f}));
  settings_.decay_exclude = {"second/*"};
  EXPECT_EQ(decays(), (std::vector{0.5f, 0.25f, 0.0f, 0.5f})) << "both say 0";
  settings_.decay_exclude = {"first/*"};
  expect_refused("--decay-exclude excludes first/norm/gamma, and --group '*/gamma' states its weight decay: give one");
}

TEST_F(DecayExclusion, OfNoVariableIsRefusedWithTheNamesThereAre) {
  settings_.decay_exclude = {"none", "*/gamma", "fourth/*"};
  expect_refused("--decay-exclude: 'fourth/*' matches no variable; there are: first/weights, first/norm/gamma");
}

}  // namespace
}  // namespace carillon::testing
