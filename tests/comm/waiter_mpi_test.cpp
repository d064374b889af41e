#include "src/comm/waiter.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"

namespace carillon::testing {
namespace {

/// The error of a wait for `missing` among ranks 10, 11, ..., 39.
std::string error_of(const std::vector<int>& missing) {
  std::vector<int> ranks;
  for (int rank = 10; rank < 40; ++rank) ranks.push_back(rank);
  try {
    Waiter({.seconds = 0.01}, ranks)
        .wait(
            "a test", 10, [] { return false; }, [&] { return missing; });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Waiter, NamesThoseWhoDidNotComeByTheirNumbersInTheRun) {
  EXPECT_EQ(error_of({3}), "waited 0.01 s for rank 13 in a test");
  EXPECT_EQ(error_of({5, 3}), "waited 0.01 s for ranks 13 and 15 in a test");
  EXPECT_EQ(error_of({0, 1, 2}), "waited 0.01 s for ranks 10, 11 and 12 in a test");
  EXPECT_EQ(error_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
            "waited 0.01 s for ranks 10, 11, 12, 13, 14, 15, 16, 17 and 2 more in a test");
}

TEST(Waiter, EndsWhenAllHaveComeEvenAtTheLimit) {
  int looks = 0;
  Waiter({}, {0}).wait(
      "a test", 10, [&] { return ++looks == 10000; }, [] { return std::vector{0}; });
  EXPECT_EQ(looks, 10000);
  bool arrived = false;
  const auto arrives_now = [&] {
    arrived = true;
    return std::vector<int>{};
  };
  EXPECT_NO_THROW(Waiter({.seconds = 0.0}, {0})
                      .wait(
                          "a test", 1, [&] { return arrived; }, arrives_now));
}

}  // namespace
}  // namespace carillon::testing
