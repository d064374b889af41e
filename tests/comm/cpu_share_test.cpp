#include "carillon/comm/cpu_share.h"

#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

TEST(DivideCpus, SharesAreDisjointAndLeaveNoneIdle) {
  const std::vector<int> cpus{0, 2, 4, 6, 8, 10, 12};
  for (int count = 1; count <= 7; ++count) {
    std::vector<int> all;
    for (int index = 0; index < count; ++index) {
      const std::vector<int> share = divide_cpus(cpus, index, count);
      EXPECT_FALSE(share.empty());
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, cpus) << count;
  }
}

TEST(DivideCpus, MoreRanksThanCpusGetOneEach) {
  for (int index = 0; index < 4; ++index) EXPECT_EQ(divide_cpus({5, 6}, index, 4), std::vector{index < 2 ? 5 : 6});
}

}  // namespace
}  // namespace carillon::testing
