// A checkpoint file: Carillon's header, which detects damage, then the HDF5 image.
#include "src/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint_bytes.h"
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

/// The image length that the header states. `bytes`: the first 512 bytes of the file, or all of a shorter file. Errors:
/// data (not a valid header), RefusedCheckpoint (another version).
std::uint64_t announced_image_bytes(std::span<const std::byte> bytes, const std::string& subject) {
  const auto header = read_header(bytes, subject);
  if (header.version != header_version) {
    throw RefusedCheckpoint(ExitCode::data, fmt::format("{}: its header has version {}, this program reads only {}",
                                                        subject, header.version, header_version));
  }
  return header.image_bytes;
}

[[noreturn]] void fail_reading(const std::string& subject, int error) {
  fail(ExitCode::io, "{}: cannot be read: {}", subject, errno_text(error));
}

/// Reads the whole file. Checks header and length before it allocates memory for the rest.
std::vector<std::byte> read_file(const std::filesystem::path& path, const std::string& subject,
                                 std::uint64_t max_bytes) {
  const Descriptor descriptor = open_plain_file(path, subject);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) fail_reading(subject, errno);

  std::vector<std::byte> bytes(checkpoint_header_bytes);
  std::size_t count = 0;
  if (const int error = read_all(descriptor.get(), bytes, count)) fail_reading(subject, error);
  bytes.resize(count);
  const auto image_bytes = announced_image_bytes(bytes, subject);
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (file_bytes < count || file_bytes - count != image_bytes) {
    fail(ExitCode::data, "{}: damaged: {} bytes follow its header, expected {}", subject,
         static_cast<std::int64_t>(info.st_size) - static_cast<std::int64_t>(count), image_bytes);
  }
  if (file_bytes > max_bytes) {
    throw RefusedCheckpoint(
        ExitCode::data, fmt::format("{}: has {} bytes, and at most {} are read here: it is probably of another network",
                                    subject, file_bytes, max_bytes));
  }
  bytes.resize(count + image_bytes);
  std::size_t image_count = 0;
  const int error = read_all(descriptor.get(), std::span(bytes).subspan(count), image_count);
  if (error != 0) fail_reading(subject, error);
  bytes.resize(count + image_count);
  return bytes;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, CheckpointState state) {
  write_file_atomically(path, encode_checkpoint(std::move(state)));
}

CheckpointState read_checkpoint(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const auto subject = "checkpoint " + path.string();
  const auto file = read_file(path, subject, max_bytes);
  return parse_hdf5_image(verified_image(file, subject), subject);
}

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
