// The checkpoint file: Carillon's header, which detects damage, and then the HDF5 image (the bytes of an HDF5 file).
// Also checks the contents against the limits of CheckpointBounds.
#include "src/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint_format.h"
#include "src/core/crc32c.h"
#include "src/core/text.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "the header is little endian");

// As in PNG, the first byte is not ASCII, and the magic contains both kinds of line end. A transfer in text mode
// changes these bytes, so the reader detects such a transfer.
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
  std::uint32_t header_crc;                // CRC32C of the 508 bytes before it
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

/// Returns the image length that the header states. `bytes`: the first 512 bytes of the file, or the whole file if it
/// is shorter. Errors: data (the header is not valid), RefusedCheckpoint (the header has another version).
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

/// Reads the whole file. Checks the header and the length of the file before it allocates memory for the HDF5 image.
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

namespace {

/// Returns the nesting depth of arrays and objects in a JSON text.
int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return deepest;
}

/// True if HDF5 uses `name` unchanged as a path with the separator '/'. HDF5 would ignore empty parts of a path, and
/// parts named ".".
bool is_path(std::string_view name) {
  const std::string whole = fmt::format("/{}/", name);
  return whole.find("//") == whole.npos && whole.find("/./") == whole.npos && name.find('\0') == name.npos;
}

}  // namespace

void CheckpointBounds::check_text(std::string_view attribute, std::string_view text) const {
  if (text.size() > max_text_bytes) {
    refuse("attribute {} has {} bytes, at most {} expected", attribute, text.size(), max_text_bytes);
  }
  if (text.find('\0') != text.npos) refuse("attribute {} has a zero byte", attribute);
}

void CheckpointBounds::check_options(std::string_view json) const {
  check_text("options", json);
  if (json_depth(json) > max_options_depth) refuse("attribute options nests deeper than {}", max_options_depth);
}

void CheckpointBounds::check_position(std::int64_t global_step, std::uint64_t stream_position) const {
  if (global_step < 0 || global_step > max_global_step) {
    refuse("attribute global_step is {}, expected 0 to {}", global_step, max_global_step);
  }
  if (stream_position > max_stream_position) {
    refuse("attribute stream_position is {}, expected 0 to {}", stream_position, max_stream_position);
  }
}

void CheckpointBounds::check_array(std::string_view name, std::span<const std::int64_t> shape) const {
  const std::string shown = printable(name, 100);
  if (!is_path(name)) refuse("array name '{}' is no path", shown);
  if (name.size() > max_name_bytes) {
    refuse("array name '{}' has {} bytes, at most {} expected", shown, name.size(), max_name_bytes);
  }
  if (std::ranges::count(name, '/') > max_name_depth) {
    refuse("array name '{}' nests deeper than {}", shown, max_name_depth);
  }
  if (shape.size() > max_array_rank) {
    refuse("array '{}' has rank {}, at most {} expected", shown, shape.size(), max_array_rank);
  }
}

void CheckpointBounds::check_slot(std::string_view name) const {
  if (!is_path(name) || name.find('/') != name.npos || name.size() > max_name_bytes) {
    refuse("optimizer slot name '{}' is not one of at most {} bytes without '/'", printable(name, 100), max_name_bytes);
  }
}

}  // namespace carillon
