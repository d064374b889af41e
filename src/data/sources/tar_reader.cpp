#include "src/data/sources/tar_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::size_t block_bytes = 512;
constexpr std::size_t checksum_at = 148, checksum_bytes = 8;

using Header = std::span<const std::uint8_t>;

std::string_view field(Header header, std::size_t at, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + at, bytes);
  return text.substr(0, text.find('\0'));
}

/// A number as octal text between spaces, or in base 256; nothing for what is neither, or beyond 2^63.
std::optional<std::uint64_t> number(Header header, std::size_t at, std::size_t bytes) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 63;
  std::uint64_t value = 0;
  if (header[at] == 0x80) {
    for (const std::uint8_t byte : header.subspan(at + 1, bytes - 1)) {
      if (value >= limit >> 8) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  std::string_view text = field(header, at, bytes);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(digit - '0');  // 12 digits: at most 36 bits
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

/// Whether the header's bytes sum up to its checksum; old writers summed signed bytes.
bool checksum_is_right(Header header) {
  std::int64_t sum = checksum_bytes * ' ', signed_sum = sum;
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (i >= checksum_at && i < checksum_at + checksum_bytes) continue;
    sum += header[i];
    signed_sum += static_cast<std::int8_t>(header[i]);
  }
  const auto stored = number(header, checksum_at, checksum_bytes);
  return stored && (static_cast<std::int64_t>(*stored) == sum || static_cast<std::int64_t>(*stored) == signed_sum);
}

std::string member_name(Header header) {
  const std::string_view name = field(header, 0, 100);
  const std::string_view prefix = field(header, 257, 6) == "ustar" ? field(header, 345, 155) : "";
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

std::uint64_t padding(std::uint64_t bytes) { return (block_bytes - bytes % block_bytes) % block_bytes; }

}  // namespace

TarReader::TarReader(const std::string& path, std::uint64_t max_bytes) : file_(path), max_bytes_(max_bytes) {}

bool TarReader::next(TarMember& member) {
  finish_member();
  const std::uint64_t start = position_;
  const auto header = file_.take(block_bytes);
  position_ += header.size();
  if (header.empty() && start > 0) return false;
  if (header.size() < block_bytes)
    fail(ExitCode::data, "{}: {}", path(),
         start == 0 ? "is no tar archive: it is shorter than a tar header"
                    : fmt::format("the archive is cut in the header at byte {}", start));
  if (start > 0 && std::ranges::all_of(header, [](std::uint8_t byte) { return byte == 0; })) {
    file_.skip(max_bytes_ - std::min(position_, max_bytes_));  // to the end: a GZIP file's checksum is there
    return false;
  }
  const auto bytes = number(header, 124, 12);
  if (!checksum_is_right(header) || !bytes)
    fail(ExitCode::data, "{}: {}", path(),
         start == 0 ? "is no tar archive: its first block is not a tar header"
                    : fmt::format("the archive is damaged: the header at byte {} has a wrong checksum or size", start));
  if (*bytes > max_bytes_ || position_ + *bytes > max_bytes_)
    fail(ExitCode::data, "{}: member '{}' goes beyond the {} MiB that an archive may have", path(), member_name(header),
         max_bytes_ >> 20);
  const std::uint8_t type = header[156];
  member_ = {.name = member_name(header), .bytes = *bytes, .is_file = type == '0' || type == '\0' || type == '7'};
  unread_bytes_ = *bytes;
  member = member_;
  return true;
}

std::vector<std::uint8_t> TarReader::content() {
  auto bytes = file_.take(unread_bytes_);
  if (bytes.size() < unread_bytes_)
    fail(ExitCode::data, "{}: the archive is cut: {} of the {} bytes of '{}' are there", path(), bytes.size(),
         member_.bytes, member_.name);
  position_ += bytes.size();
  unread_bytes_ = 0;
  return bytes;
}

void TarReader::finish_member() {
  const std::uint64_t skipped = file_.skip(unread_bytes_);
  if (skipped < unread_bytes_)
    fail(ExitCode::data, "{}: the archive is cut: {} of the {} bytes of '{}' are there", path(),
         member_.bytes - unread_bytes_ + skipped, member_.bytes, member_.name);
  position_ += skipped + file_.skip(padding(member_.bytes));  // the last member's padding may be missing
  unread_bytes_ = member_.bytes = 0;
}

}  // namespace carillon
