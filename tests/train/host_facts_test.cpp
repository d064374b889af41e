#include "src/train/preflight/host_facts.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(HostFactsTest, NumbersInARowStandAsARange) {
  EXPECT_EQ(range_text(std::vector<int>{}), "");
  EXPECT_EQ(range_text(std::vector{3}), "3");
  EXPECT_EQ(range_text(std::vector{0, 1}), "0,1");
  EXPECT_EQ(range_text(std::vector{0, 1, 2, 3, 8, 10, 11, 12}), "0-3,8,10-12");
}

TEST(HostFactsTest, InterfacesAreThoseOfTheSystem) {
  for (const std::string& interface : network_interfaces()) {
    EXPECT_EQ(interface.find("127."), interface.npos) << interface;
    EXPECT_NE(interface.find(' '), interface.npos) << interface;
  }
}

}  // namespace
}  // namespace carillon
