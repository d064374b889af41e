#include "carillon/core/parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <utility>
#include <vector>

namespace carillon::testing {
namespace {

using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  Parallel() { omp_set_num_threads(GetParam()); }

  /// Returns the ranges into which `loop` divides its work, in ascending order.
  template <typename Loop>
  static Ranges ranges_of(const Loop& loop) {
    std::mutex mutex;
    Ranges ranges;
    loop([&](std::size_t begin, std::size_t end) {
      const std::lock_guard lock(mutex);
      ranges.emplace_back(begin, end);
    });
    std::sort(ranges.begin(), ranges.end());
    return ranges;
  }
  static void expect_cover(const Ranges& ranges, std::size_t count) {
    std::size_t next = 0;
    for (const auto& [begin, end] : ranges) {
      EXPECT_EQ(begin, next);
      EXPECT_LT(begin, end);
      next = end;
    }
    EXPECT_EQ(next, count);
  }
};

TEST_P(Parallel, RangesCoverAllElementsOnceAndBeginAligned) {
  for (const std::size_t count : {1, 15, 16, 17, 100, 1000, 12345}) {
    const Ranges ranges = ranges_of([&](const auto& body) { parallel_ranges(count, 1, body); });
    expect_cover(ranges, count);
    EXPECT_LE(ranges.size(), static_cast<std::size_t>(GetParam()));
    for (const auto& [begin, end] : ranges) EXPECT_EQ(begin % 16, 0u) << count;
  }
}

TEST_P(Parallel, FewerThreadsWorkWhereAShareWouldBeBelowTheGrain) {
  EXPECT_EQ(ranges_of([&](const auto& body) { parallel_ranges(1999, 1000, body); }).size(), 1u);
  const std::size_t threads = static_cast<std::size_t>(GetParam());
  EXPECT_EQ(ranges_of([&](const auto& body) { parallel_ranges(8000, 1000, body); }).size(),
            std::min<std::size_t>(threads, 8));
}

TEST_P(Parallel, ItemsAreTakenWhole) {
  for (const std::size_t count : {1, 2, 7, 33}) {
    for (const std::size_t size : {1, 3, 16, 100}) {
      expect_cover(ranges_of([&](const auto& body) { parallel_items(count, size, 1, body); }), count);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace carillon::testing
