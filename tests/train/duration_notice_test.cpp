#include "src/train/loop/duration_notice.h"

#include <gmock/gmock.h>

namespace carillon::testing {
namespace {

using std::chrono::seconds;

/// The step, counted from 0, after which a notice was given, and its text.
struct Found {
  std::int64_t step = -1;
  std::string text;
};

/// Steps of these seconds, the first of 60.
Found notice_of(DurationNotice notice, int step_seconds, std::int64_t steps) {
  Found found;
  DurationNotice::Clock::time_point now{};
  for (std::int64_t step = 0; step < std::min<std::int64_t>(steps, 100); ++step) {
    now += seconds(step == 0 ? 60 : step_seconds);
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
  notice.exclude(seconds(100));
  EXPECT_FALSE(notice.end_step(now += seconds(103), 999));
  EXPECT_FALSE(notice.end_step(now += seconds(8), 600)) << "5.5 seconds a step";
  EXPECT_FALSE(notice.end_step(now += seconds(100), 600)) << "decided before";
}

}  // namespace
}  // namespace carillon::testing
