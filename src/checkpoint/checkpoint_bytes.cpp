#include "src/checkpoint/checkpoint_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "src/checkpoint/hdf5_image.h"
#include "src/core/crc32c.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "the header is little endian");

// As in PNG: the first byte is not ASCII and both line ends follow, so a transfer in text mode is detected.
constexpr std::array<unsigned char, 8> magic = {0x89, 'C', 'R', 'L', '\r', '\n', 0x1a, '\n'};
constexpr std::array<unsigned char, 8> hdf5_magic = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::uint32_t header_version = 1;

/// The header in the file. header_crc covers all bytes before it, including the padding.
struct Header {
  std::array<unsigned char, 8> magic;
  std::uint32_t version;
  std::uint32_t image_crc;  // CRC32C
  std::uint64_t image_bytes;
  std::array<unsigned char, 484> padding;  // zero
  std::uint32_t header_crc;                // CRC32C of the 508 bytes before
};
static_assert(sizeof(Header) == checkpoint_header_bytes && offsetof(Header, header_crc) == 508);

std::uint32_t crc_of(const Header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_crc)));
}

Header read_header(std::span<const std::byte> bytes, const std::string& subject) {
  Header header{};
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  if (header.magic == hdf5_magic) {
    fail(ExitCode::data, "{}: an HDF5 file without Carillon's header: not written by Carillon", subject);
  }
  if (bytes.size() < sizeof header) {
    fail(ExitCode::data, "{}: cut at {} bytes, its header alone has {}", subject, bytes.size(), sizeof header);
  }
  if (header.magic != magic)
    fail(ExitCode::data, "{}: not a Carillon checkpoint, or its first bytes are damaged", subject);
  if (header.header_crc != crc_of(header)) {
    fail(ExitCode::data, "{}: damaged: CRC32C of its header is {:08x}, expected {:08x}", subject, crc_of(header),
         header.header_crc);
  }
  return header;
}

}  // namespace

std::vector<std::byte> encode_checkpoint(CheckpointState state) {
  auto bytes = build_hdf5_image(std::move(state), sizeof(Header));
  const auto image = std::span(bytes).subspan(sizeof(Header));
  Header header{.magic = magic,
                .version = header_version,
                .image_crc = crc32c(image),
                .image_bytes = image.size(),
                .padding = {},
                .header_crc = 0};
  header.header_crc = crc_of(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::uint64_t announced_image_bytes(std::span<const std::byte> bytes, const std::string& subject) {
  const auto header = read_header(bytes, subject);
  if (header.version > header_version) {
    throw RefusedCheckpoint(
        ExitCode::data, fmt::format("{}: its header has version {}, this program reads up to {}: use a newer Carillon",
                                    subject, header.version, header_version));
  }
  return header.image_bytes;
}

std::span<const std::byte> verified_image(std::span<const std::byte> file, const std::string& subject) {
  const auto expected_bytes = announced_image_bytes(file, subject);
  const auto image = file.subspan(sizeof(Header));
  if (image.size() != expected_bytes) {
    fail(ExitCode::data, "{}: damaged: {} bytes follow its header, expected {}", subject, image.size(), expected_bytes);
  }
  const auto expected_crc = read_header(file, subject).image_crc;
  if (const auto crc = crc32c(image); crc != expected_crc) {
    fail(ExitCode::data, "{}: damaged: CRC32C of its {}-byte image is {:08x}, expected {:08x}", subject, image.size(),
         crc, expected_crc);
  }
  return image;
}

}  // namespace carillon
