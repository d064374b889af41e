#include "src/train/loop/step_clock.h"

#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

using namespace std::chrono_literals;

class StepClockTest : public ::testing::Test {
 protected:
  void take(int steps, double data_wait_seconds) {
    for (int i = 0; i < steps; ++i) clock_.take_step(data_wait_seconds);
  }
  /// Steps of a tenth of a second, the first of which ends at `first`.
  void end(int steps, std::chrono::milliseconds first) {
    for (int i = 0; i < steps; ++i) clock_.end_step(0.02, start_ + first + i * 100ms);
  }

  const StepClock::Clock::time_point start_ = StepClock::Clock::now();
  StepClock clock_;
};

TEST_F(StepClockTest, ReportsMeansOfFinishedSteps) {
  clock_.start(start_);
  take(20, 0.05);
  end(10, 100ms);
  EXPECT_NEAR(clock_.seconds(), 1.0, 1e-6);
  const StepClock::Means means = clock_.means();
  EXPECT_NEAR(means.step, 0.1, 1e-6);
  EXPECT_NEAR(means.data_wait, 0.05, 1e-6);
  EXPECT_NEAR(means.allreduce, 0.02, 1e-6);
}

/// Like a GPU's clock, if there is no step between two lines.
TEST_F(StepClockTest, TellsStepsOfOneSpeedAlikeThoughTheirEndsAreHeardOfAtOnce) {
  clock_.start(start_);
  take(32, 0.05);
  for (int line = 0; line < 3; ++line) {
    end(10, 100ms + line * 1000ms);
    EXPECT_NEAR(clock_.means().step, 0.1, 1e-6) << line;
    EXPECT_NEAR(clock_.means().data_wait, 0.05, 1e-6) << line;
    clock_.restart();
  }
}

TEST_F(StepClockTest, ExcludesTimeOutsideOfSteps) {
  clock_.start(start_);
  clock_.exclude(600ms);
  take(4, 0.0);
  end(4, 700ms);
  EXPECT_NEAR(clock_.means().step, 0.1, 1e-6);
}

TEST_F(StepClockTest, NeverReportsAStepOfZeroTime) {
  clock_.start(start_);
  take(1, 0.0);
  clock_.end_step(0.0, start_);
  EXPECT_GT(clock_.means().step, 0.0);
}

}  // namespace
}  // namespace carillon::testing
