#include <gtest/gtest.h>

#include "src/train/loop/rank_times.h"

namespace carillon::testing {
namespace {

using Seconds = std::vector<double>;

/// The messages for each of `looks`, which are `seconds` apart.
std::vector<std::string> said(const std::vector<Seconds>& looks, double seconds = 60.0) {
  Stragglers stragglers({"n1", "n1", "n2"});
  std::vector<std::string> lines;
  for (const Seconds& look : looks) lines.push_back(stragglers.add(look, seconds).value_or(""));
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
