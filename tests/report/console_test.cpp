#include "src/report/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "carillon/core/file.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

TEST(StepLine, HasTheReferencesForm) {
  const std::chrono::system_clock::time_point time{std::chrono::microseconds(1700000000123456)};
  // 4 towers: a step of 0.608 s is printed as 0.152 sec/batch.
  const std::string line = step_line(time, 10, 4.6449, 839.84, 0.608, 4);
  EXPECT_THAT(line, ::testing::MatchesRegex("....-..-.. ..:..:..\\.123456: step 10, loss = 4\\.64 "
                                            "\\(839\\.8 examples/sec; 0\\.152 sec/batch\\)"));
}

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A progress display for a run from step 100 to step 500, and the text that it has written.
class ProgressTest : public ::testing::Test {
 protected:
  Progress progress(Progress::Form form) { return {100, 500, {output_.get(), form}, start_}; }
  std::string written() const { return read_text(directory_.path() / "output"); }

  TemporaryDirectory directory_;
  Descriptor output_{::open((directory_.path() / "output").c_str(), O_WRONLY | O_CREAT, 0600)};
  Progress::Clock::time_point start_ = Progress::Clock::now();
};

TEST_F(ProgressTest, IsABarWithTheLossAndTheTimeLeft) {
  progress(Progress::Form::bar).update(200, 1.25, start_ + seconds(10));
  EXPECT_EQ(written(), "\r\033[K[########............]  40 %  step 200/500  loss 1.250  30 s left");
}

TEST_F(ProgressTest, OmitsAnUnknownLoss) {
  progress(Progress::Form::bar).update(200, std::nullopt, start_ + seconds(10));
  EXPECT_EQ(written(), "\r\033[K[########............]  40 %  step 200/500  30 s left");
}

TEST_F(ProgressTest, RedrawsABarTenTimesASecondAtMost) {
  Progress bar = progress(Progress::Form::bar);
  for (int i = 1; i <= 100; ++i) bar.update(100 + i, 1.0, start_ + milliseconds(5 * i));
  EXPECT_EQ(std::ranges::count(written(), '\r'), 5);
}

TEST_F(ProgressTest, TakesTheBarAwayForOtherLines) {
  Progress bar = progress(Progress::Form::bar);
  bar.clear();
  EXPECT_EQ(written(), "");
  bar.update(200, 1.0, start_ + seconds(1));
  EXPECT_TRUE(Progress::has_bar());
  bar.clear();
  EXPECT_FALSE(Progress::has_bar());
  bar.clear();
  EXPECT_TRUE(written().ends_with(" left\r\033[K"));
  EXPECT_EQ(std::ranges::count(written(), '\r'), 2);
}

TEST_F(ProgressTest, WithoutATerminalIsALineAfterTenSecondsAndThenEachMinute) {
  Progress lines = progress(Progress::Form::lines);
  for (int second = 1; second <= 135; ++second) lines.update(100 + 2 * second, 1.0, start_ + seconds(second));
  lines.clear();
  EXPECT_EQ(written(),
            "step 120/500, 3 min left\n"
            "step 240/500, 2 min left\n"
            "step 360/500, 70 s left\n");
}

TEST(DurationText, IsShortAtEveryLength) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(119.0), "119 s");
  EXPECT_EQ(duration_text(120.0), "2 min");
  EXPECT_EQ(duration_text(7199.0), "119 min");
  EXPECT_EQ(duration_text(7500.0), "2 h 05 min");
}

}  // namespace
}  // namespace carillon::testing
