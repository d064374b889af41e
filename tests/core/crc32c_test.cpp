#include "carillon/core/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace carillon {
namespace {

std::uint32_t crc_of(std::string_view text, std::uint32_t seed = 0) {
  return crc32c(std::as_bytes(std::span(text)), seed);
}

TEST(Crc32c, EqualsTheKnownAnswers) {
  EXPECT_EQ(crc_of("123456789"), 0xE3069283u);
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xFF});  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ones), 0x62A8AB43u);
}

TEST(Crc32c, OfNothingIsTheSeed) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c({}, 0xE3069283u), 0xE3069283u);
}

TEST(Crc32c, ContinuesFromASeed) { EXPECT_EQ(crc_of("456789", crc_of("123")), crc_of("123456789")); }

}  // namespace
}  // namespace carillon
