#include "src/core/crc32c.h"

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

/// Computes the CRC bit by bit from its polynomial.
std::uint32_t reference_crc(std::span<const std::byte> data) {
  std::uint32_t state = ~0u;
  for (const std::byte byte : data) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ (state & 1 ? 0x82F63B78u : 0u);
  }
  return ~state;
}

TEST(Crc32c, OfEveryLengthIsThePolynomials) {
  std::vector<std::byte> data(300);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i + 7 * i);
  for (std::size_t bytes = 0; bytes < data.size(); ++bytes) {
    EXPECT_EQ(crc32c(std::span(data).first(bytes)), reference_crc(std::span(data).first(bytes))) << bytes;
  }
}

TEST(Crc32c, OfNothingIsTheSeed) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c({}, 0xE3069283u), 0xE3069283u);
}

TEST(Crc32c, ContinuesFromASeed) { EXPECT_EQ(crc_of("456789", crc_of("123")), crc_of("123456789")); }

}  // namespace
}  // namespace carillon
