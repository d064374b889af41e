#include "src/core/size_text.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(SizeText, HasTheUnitThatSuitsTheNumber) {
  EXPECT_EQ(size_text(4), "4 bytes");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1590040), "1.59 MB");
  EXPECT_EQ(size_text(38e9), "38.0 GB");
  EXPECT_EQ(size_text(5e15), "5000.0 TB");
}

}  // namespace
}  // namespace carillon
