#include "src/comm/mpi/members.h"

#include <gtest/gtest.h>

#include <chrono>

#include "carillon/core/error.h"

namespace carillon::testing {
namespace {

/// Returns the error of a wait for the ranks 10 to 39. Some of these ranks never arrive. `missing`: the indices of the
/// missing ranks; index 0 is rank 10.
std::string error_of(const std::vector<int>& missing) {
  std::vector<int> ranks;
  for (int rank = 10; rank < 40; ++rank) ranks.push_back(rank);
  try {
    BoundedWait({.seconds = 0.01}, ranks)
        .wait(
            "a test", 10, [] { return false; }, [&] { return missing; });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BoundedWait, NamesMissingRanksByTheirNumbersInTheRun) {
  EXPECT_EQ(error_of({3}), "waited 0.01 s for rank 13 in a test");
  EXPECT_EQ(error_of({5, 3}), "waited 0.01 s for ranks 13 and 15 in a test");
  EXPECT_EQ(error_of({0, 1, 2}), "waited 0.01 s for ranks 10, 11 and 12 in a test");
  EXPECT_EQ(error_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
            "waited 0.01 s for ranks 10, 11, 12, 13, 14, 15, 16, 17 and 2 more in a test");
}

TEST(BoundedWait, EndsWhenAllHaveComeEvenAtTheLimit) {
  int looks = 0;
  BoundedWait({}, {0}).wait(
      "a test", 10, [&] { return ++looks == 10000; }, [] { return std::vector{0}; });
  EXPECT_EQ(looks, 10000);
  bool arrived = false;
  const auto arrives_now = [&] {
    arrived = true;
    return std::vector<int>{};
  };
  EXPECT_NO_THROW(BoundedWait({.seconds = 0.0}, {0})
                      .wait(
                          "a test", 1, [&] { return arrived; }, arrives_now));
}

/// All ranks arrive after the wait's last poll, but before it determines which ranks are missing. So no rank is
/// missing.
TEST(BoundedWait, AsksNoWatchAboutNobody) {
  struct StallDetector final : WaitObserver {
    void still_waiting(std::string_view, std::span<const int> ranks, double) override {
      asked_about.push_back(ranks.size());
    }
    void waited(double) override { ++waits; }
    std::vector<std::size_t> asked_about;
    int waits = 0;
  } stall_detector;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  BoundedWait({.observer = &stall_detector}, {0, 1})
      .wait(
          "a test", 10, [&] { return passed() > std::chrono::milliseconds(700); },
          [&] {
            return passed() < std::chrono::milliseconds(350) ? std::vector{0, 1} : std::vector<int>{};
          });
  EXPECT_FALSE(stall_detector.asked_about.empty());
  for (const std::size_t count : stall_detector.asked_about) EXPECT_EQ(count, 2u);
  EXPECT_EQ(stall_detector.waits, 1);
}

}  // namespace
}  // namespace carillon::testing
