#include "carillon/optim/optimizer_settings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/optim/optimizer.h"

namespace carillon::testing {
namespace {

TEST(ExponentialDecay, IsContinuousOrAStaircase) {
  const Schedule smooth = exponential_decay({.initial = 0.001, .factor = 0.99, .decay_steps = 600});
  EXPECT_DOUBLE_EQ(smooth.rate(0), 0.001);
  EXPECT_DOUBLE_EQ(smooth.rate(300), 0.001 * std::sqrt(0.99));
  const Schedule stairs = exponential_decay({.initial = 0.1, .factor = 0.1, .decay_steps = 100, .staircase = true});
  EXPECT_DOUBLE_EQ(stairs.rate(99), 0.1);
  EXPECT_DOUBLE_EQ(stairs.rate(100), 0.1 * 0.1);
}

TEST(CosineDecay, GoesFromTheFirstRateToTheLastAndStaysThere) {
  const Schedule cosine = cosine_decay({.initial = 0.4, .final = 0.1, .steps = 100});
  EXPECT_DOUBLE_EQ(cosine.rate(0), 0.4);
  EXPECT_DOUBLE_EQ(cosine.rate(50), 0.25);
  EXPECT_NEAR(cosine.rate(25), 0.25 + 0.15 * std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(cosine.rate(100), 0.1, 1e-15);
  EXPECT_NEAR(cosine.rate(1000), 0.1, 1e-15);
}

TEST(PolynomialDecay, GoesFromTheFirstRateToTheLastAndStaysThere) {
  const Schedule square = polynomial_decay({.initial = 0.5, .final = 0.1, .power = 2.0, .steps = 100});
  EXPECT_DOUBLE_EQ(square.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(square.rate(25), 0.1 + 0.4 * 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(square.rate(100), 0.1);
  EXPECT_DOUBLE_EQ(square.rate(1000), 0.1);
}

TEST(StepDecay, TakesEachMilestonesFactorFromThatStepOn) {
  const Schedule steps = step_decay({.initial = 0.4, .factor = 0.5, .milestones = {3, 5}});
  EXPECT_DOUBLE_EQ(steps.rate(2), 0.4);
  EXPECT_DOUBLE_EQ(steps.rate(3), 0.2);
  EXPECT_DOUBLE_EQ(steps.rate(4), 0.2);
  EXPECT_DOUBLE_EQ(steps.rate(5), 0.1);
  EXPECT_DOUBLE_EQ(steps.rate(500), 0.1);
}

TEST(PiecewiseLinear, GoesThroughItsKnotsAndStaysAtTheEnds) {
  const Schedule triangle = piecewise_linear({{10, 0.1}, {20, 0.5}, {40, 0.0}});
  EXPECT_DOUBLE_EQ(triangle.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(triangle.rate(10), 0.1);
  EXPECT_DOUBLE_EQ(triangle.rate(15), 0.3);
  EXPECT_DOUBLE_EQ(triangle.rate(20), 0.5);
  EXPECT_DOUBLE_EQ(triangle.rate(35), 0.125);
  EXPECT_DOUBLE_EQ(triangle.rate(40), 0.0);
  EXPECT_DOUBLE_EQ(triangle.rate(41), 0.0);
}

TEST(WarmUp, IsALineToTheFirstRateOfWhatFollows) {
  const Schedule schedule =
      warm_up({.from = 0.1, .steps = 10}, exponential_decay({.initial = 0.5, .factor = 0.5, .decay_steps = 1}));
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.3);
  EXPECT_DOUBLE_EQ(schedule.rate(10), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(12), 0.125);
  EXPECT_DOUBLE_EQ(warm_up({}, constant_rate(0.2)).rate(0), 0.2);
}

TEST(MovingAverageDecay, WarmsUpAsTensorFlowsDoes) {
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 1), 2.0 / 11.0);
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 100), 101.0 / 110.0);
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 10000), 0.99);
}

}  // namespace
}  // namespace carillon::testing
