#include "src/train/loop/phase_times.h"

#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

/// A clock that the test moves.
class PhaseTimesTest : public ::testing::Test {
 protected:
  void spend(double seconds) {
    now_ += std::chrono::duration_cast<PhaseTimes::Clock::duration>(std::chrono::duration<double>(seconds));
  }
  void spend_in(Phase phase, double seconds) {
    times_.enter(phase, now_);
    spend(seconds);
  }
  PhaseSeconds seconds() const { return times_.seconds(now_); }

  PhaseTimes::Clock::time_point now_{std::chrono::hours(1)};
  PhaseTimes times_{now_};
};

TEST_F(PhaseTimesTest, BeginInTheStart) {
  spend(0.5);
  EXPECT_DOUBLE_EQ(seconds().start, 0.5);
  EXPECT_DOUBLE_EQ(seconds().total(), 0.5);
}

TEST_F(PhaseTimesTest, AddUpWhatIsSpentInAPhaseEachTime) {
  spend(1.0);
  for (int step = 0; step < 3; ++step) {
    spend_in(Phase::data, 0.25);
    spend_in(Phase::compute, 2.0);
  }
  spend_in(Phase::evaluation, 4.0);
  spend_in(Phase::checkpoint, 8.0);
  spend_in(Phase::evaluation, 4.0);
  spend_in(Phase::finish, 16.0);
  EXPECT_DOUBLE_EQ(seconds().start, 1.0);
  EXPECT_DOUBLE_EQ(seconds().data, 0.75);
  EXPECT_DOUBLE_EQ(seconds().training, 6.0);
  EXPECT_DOUBLE_EQ(seconds().evaluation, 8.0);
  EXPECT_DOUBLE_EQ(seconds().checkpoints, 24.0);  // the wait for the last one too
  EXPECT_DOUBLE_EQ(seconds().total(), 39.75);
}

TEST_F(PhaseTimesTest, CountTheCurrentPhaseAndContinueInIt) {
  spend_in(Phase::compute, 1.0);
  EXPECT_DOUBLE_EQ(seconds().training, 1.0);
  spend(1.0);
  EXPECT_DOUBLE_EQ(seconds().training, 2.0);
  spend_in(Phase::data, 0.0);
  EXPECT_DOUBLE_EQ(seconds().training, 2.0);
}

}  // namespace
}  // namespace carillon::testing
