#include "src/core/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace carillon {
namespace {

std::uint16_t rounded(std::uint32_t float_bits) { return to_bf16(std::bit_cast<float>(float_bits)).bits; }

TEST(Bf16Test, RoundsToTheNearest) {
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);  // 1
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);  // just below the middle between two bf16 numbers
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);  // just above the middle
  EXPECT_EQ(rounded(0x3f80ffff), 0x3f81);
  EXPECT_EQ(rounded(0x3eaaaaab), 0x3eab);  // 1/3
  EXPECT_EQ(rounded(0xc0490fdb), 0xc049);  // -pi
  EXPECT_EQ(rounded(0xbf808001), 0xbf81);
}

TEST(Bf16Test, RoundsTiesToEven) {
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);
  EXPECT_EQ(rounded(0xbf808000), 0xbf80);
  EXPECT_EQ(rounded(0xbf818000), 0xbf82);
}

TEST(Bf16Test, CarriesIntoTheExponent) {
  EXPECT_EQ(rounded(0x3fffffff), 0x4000);  // just below 2
  EXPECT_EQ(rounded(0x7f7f7fff), 0x7f7f);  // rounds to the largest finite value
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);  // the largest float becomes infinity
}

TEST(Bf16Test, KeepsZerosSubnormalsInfinitiesAndNaN) {
  EXPECT_EQ(rounded(0x00000000), 0x0000);
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x00018000), 0x0002);
  EXPECT_EQ(rounded(0x7f800000), 0x7f80);
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x7f800001), 0x7fc0);  // without a check for NaN, rounding would return infinity
  EXPECT_EQ(rounded(0xffffffff), 0xffff);  // without a check for NaN, rounding would return 0
}

TEST(Bf16Test, BecomesTheFloatOfTheSameUpperBits) {
  EXPECT_EQ(to_float(Bf16{0x3f81}), 1.0078125f);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_float(value)), bits << 16);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(to_bf16(to_float(value)).bits, is_nan ? bits | 0x40 : bits);
  }
}

}  // namespace
}  // namespace carillon
