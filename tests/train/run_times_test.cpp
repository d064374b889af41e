#include "src/train/loop/run_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

/// Tests with a clock that advances only when the test advances it.
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
  EXPECT_DOUBLE_EQ(seconds().checkpoints, 24.0);  // includes the wait for the last checkpoint
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

using namespace std::chrono_literals;

class StepClockTest : public ::testing::Test {
 protected:
  void take(int steps, double data_wait_seconds) {
    for (int i = 0; i < steps; ++i) clock_.take_step(data_wait_seconds);
  }
  /// Ends `steps` steps, one every 100 ms. The first one of these steps ends at start_ + `first`.
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

/// The host of a GPU may learn at the same time that several steps have ended. In this case, it may begin no step
/// between two log lines.
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

/// The text of a notice, and the number (from 0) of the step after which the notice came.
struct Found {
  std::int64_t step = -1;
  std::string text;
};

/// Returns the notice of a run in which the first step takes 60 s and each other step takes `step_seconds`.
Found notice_of(DurationNotice notice, int step_seconds, std::int64_t steps) {
  Found found;
  DurationNotice::Clock::time_point now{};
  for (std::int64_t step = 0; step < std::min<std::int64_t>(steps, 100); ++step) {
    now += std::chrono::seconds(step == 0 ? 60 : step_seconds);
    const std::optional<std::string> text = notice.end_step(now, steps - step - 1);
    if (!text) continue;
    EXPECT_EQ(found.step, -1) << "a second notice";
    found = {step, *text};
  }
  return found;
}

TEST(DurationNotice, StatesTheTimeThatIsLeftAfterTenSecondsOfStepsAndTheFasterChoice) {
  const Found found = notice_of(DurationNotice("--model small"), 3, 6000);
  EXPECT_EQ(found.step, 4);
  EXPECT_EQ(found.text, "this training will take about 5.0 hours at this speed; faster: --model small");
  EXPECT_THAT(notice_of(DurationNotice("--model small"), 20, 100'000).text, ::testing::HasSubstr("about 23 days"));
}

TEST(DurationNotice, IsNotGivenForAnHourOrWithoutAFasterChoice) {
  EXPECT_EQ(notice_of(DurationNotice("--model small"), 3, 1205).step, -1);
  EXPECT_EQ(notice_of(DurationNotice("--model small"), 3, 1206).step, 4);
  EXPECT_EQ(notice_of(DurationNotice(""), 3, 6000).step, -1);
}

TEST(DurationNotice, ExcludesEvaluations) {
  DurationNotice notice("--model small");
  DurationNotice::Clock::time_point now{};
  EXPECT_FALSE(notice.end_step(now, 1000));
  notice.exclude(std::chrono::seconds(100));
  EXPECT_FALSE(notice.end_step(now += std::chrono::seconds(103), 999));
  EXPECT_FALSE(notice.end_step(now += std::chrono::seconds(8), 600)) << "5.5 seconds a step";
  EXPECT_FALSE(notice.end_step(now += std::chrono::seconds(100), 600)) << "decided before";
}

using Seconds = std::vector<double>;

/// Returns, for each element of `looks`, the message that follows it, or an empty text. An element of `looks` has the
/// working time of each rank; `interval` seconds pass between two elements.
std::vector<std::string> said(const std::vector<Seconds>& looks, double interval = 60.0) {
  Stragglers stragglers({"n1", "n1", "n2"});
  std::vector<std::string> lines;
  for (const Seconds& look : looks) lines.push_back(stragglers.add(look, interval).value_or(""));
  return lines;
}

const Seconds slow_third{0.100, 0.110, 0.200}, slow_first{0.200, 0.110, 0.100}, equal{0.100, 0.110, 0.120};

TEST(Stragglers, ARankThatIsSlowThreeTimesInARowIsNamedOnce) {
  const std::string line = "rank 2 on n2 delays the other ranks: it works 0.200 s per step, they work 0.110 s";
  EXPECT_EQ(said({slow_third, slow_third, slow_third, slow_third, slow_third}),
            (std::vector<std::string>{"", "", line, "", ""}));
}

TEST(Stragglers, ARankIsNamedAfterHalfAMinute) {
  const std::vector<std::string> lines = said(std::vector<Seconds>(6, slow_third), 6.0);
  EXPECT_EQ(lines[3], "");
  EXPECT_NE(lines[4], "");
  EXPECT_EQ(lines[5], "");
}

TEST(Stragglers, TimeInWhichAnotherWasSlowDoesNotCount) {
  for (const std::string& line : said({slow_first, slow_third, slow_third, slow_third}, 9.0)) EXPECT_EQ(line, "");
}

TEST(Stragglers, ARankThatIsSlowAgainIsNamedAgain) {
  const std::vector<std::string> lines =
      said({slow_third, slow_third, slow_third, equal, slow_third, slow_third, slow_third});
  EXPECT_EQ(lines[2], lines[6]);
  EXPECT_NE(lines[6], "");
}

TEST(Stragglers, RanksThatAreSlowInTurnAreNotNamed) {
  for (const std::string& line : said({slow_third, slow_third, slow_first, slow_first, slow_third, slow_third})) {
    EXPECT_EQ(line, "");
  }
}

TEST(Stragglers, ALittleIsNotSlow) {
  const Seconds short_steps{0.001, 0.001, 0.005}, a_quarter{0.100, 0.100, 0.125};
  for (const Seconds& look : {short_steps, a_quarter, equal, Seconds{0.5}}) {
    for (const std::string& line : said({look, look, look, look})) EXPECT_EQ(line, "");
  }
}

}  // namespace
}  // namespace carillon::testing
