#include <gtest/gtest.h>

#include <cmath>

#include "carillon/optim/lr_schedule.h"
#include "carillon/optim/moving_average.h"

namespace carillon::testing {
namespace {

TEST(ExponentialDecay, IsContinuousOrAStaircase) {
  const ExponentialDecay smooth{.initial = 0.001, .factor = 0.99, .decay_steps = 600};
  EXPECT_DOUBLE_EQ(smooth.rate(0), 0.001);
  EXPECT_DOUBLE_EQ(smooth.rate(300), 0.001 * std::sqrt(0.99));
  const ExponentialDecay stairs{.initial = 0.1, .factor = 0.1, .decay_steps = 100, .staircase = true};
  EXPECT_DOUBLE_EQ(stairs.rate(99), 0.1);
  EXPECT_DOUBLE_EQ(stairs.rate(100), 0.1 * 0.1);
}

TEST(MovingAverageDecay, WarmsUpAsTensorFlowsDoes) {
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 1), 2.0 / 11.0);
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 100), 101.0 / 110.0);
  EXPECT_DOUBLE_EQ(moving_average_decay(0.99, 10000), 0.99);
}

}  // namespace
}  // namespace carillon::testing
