#include "carillon/core/philox.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, EqualsTheKnownAnswersOfItsAuthors) {
  const auto zero = philox4x32(0, {{0, 0, 0, 0}});
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const auto ones = philox4x32(~0ull, {{~0u, ~0u, ~0u, ~0u}});
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
  const auto pi = philox4x32(0x299f31d0a4093822ull, {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}});
  EXPECT_EQ(pi.word[0], 0xd16cfe09u);
  EXPECT_EQ(pi.word[3], 0x24126ea1u);
}

TEST(Philox, UniformFloatStaysBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(~0u), 1.0f);
}

}  // namespace
}  // namespace carillon
