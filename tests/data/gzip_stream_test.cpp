#include "src/data/records/byte_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10;  // a stream reads this many bytes at once

ByteInput input_of(std::string bytes) {
  return [bytes = std::move(bytes), at = std::size_t{0}](std::span<std::byte> out) mutable {
    const auto piece = std::as_bytes(std::span(bytes)).subspan(at, std::min(out.size(), bytes.size() - at));
    std::ranges::copy(piece, out.begin());
    at += piece.size();
    return piece.size();
  };
}

std::string inflated(const std::string& compressed) {
  GzipStream stream(input_of(compressed));
  std::string all(4 * piece_bytes, '\0');
  all.resize(stream.read(std::as_writable_bytes(std::span(all))));
  return all;
}

/// Returns a GZIP member of `compressed_bytes` bytes, and the content of the member.
std::pair<std::string, std::string> member_of(std::size_t compressed_bytes) {
  std::string noise;
  std::uint32_t state = 1;
  while (noise.size() < compressed_bytes) noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  std::string member = gzip_member(noise);
  while (member.size() > compressed_bytes) {
    noise.resize(noise.size() - (member.size() - compressed_bytes));
    member = gzip_member(noise);
  }
  EXPECT_EQ(member.size(), compressed_bytes);
  return {member, noise};
}

TEST(GzipStream, MembersMayMeetAnywhereInWhatIsReadAtOnce) {
  for (const std::size_t meeting : {piece_bytes - 2, piece_bytes - 1, piece_bytes, piece_bytes + 1}) {
    const auto [member, noise] = member_of(meeting);
    EXPECT_EQ(inflated(member + gzip_member("second")), noise + "second") << meeting;
  }
}

TEST(GzipStream, HalfAMagicBehindAMemberIsNamedWithItsPlace) {
  for (const std::size_t meeting : {std::size_t{100}, piece_bytes - 1, piece_bytes}) {
    GzipStream stream(input_of(member_of(meeting).first + "\x1f"));
    std::string out(2 * piece_bytes, '\0');
    stream.read(std::as_writable_bytes(std::span(out)));
    const Failure failure = failure_of([&] { stream.read(std::as_writable_bytes(std::span(out))); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.text, fmt::format("trailing bytes that are not GZIP data at compressed byte {}", meeting));
  }
}

}  // namespace
}  // namespace carillon
