#include <gtest/gtest.h>

#include <vector>

#include "src/comm/allreduce/communicator.h"

namespace carillon::testing {
namespace {

bool is_one_tree(const std::vector<int>& hosts) { return sums_as_one_tree(hosts); }

TEST(Averaging, OverHostsIsOneTreeWhereTheyHaveWholeSubtrees) {
  EXPECT_TRUE(is_one_tree({0}));
  EXPECT_TRUE(is_one_tree({0, 0, 0}));
  EXPECT_TRUE(is_one_tree({0, 1, 2}));
  EXPECT_TRUE(is_one_tree({0, 0, 1, 1, 2}));
  EXPECT_TRUE(is_one_tree({0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(Averaging, OverHostsIsNotOneTreeWhereTheyHaveNone) {
  EXPECT_FALSE(is_one_tree({0, 1, 0, 1})) << "ranks dealt out";
  EXPECT_FALSE(is_one_tree({0, 0, 0, 1, 1, 1})) << "three each";
  EXPECT_FALSE(is_one_tree({0, 1, 1})) << "a first host that is smaller";
  EXPECT_FALSE(is_one_tree({0, 0, 1, 2, 2})) << "a smaller one between";
}

}  // namespace
}  // namespace carillon::testing
