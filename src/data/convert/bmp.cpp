// BMP: uncompressed Windows bitmaps, and those of OS/2 with a 12-byte header.
//
// File header of 14 bytes, information header, channel masks or palette, then rows of a multiple of 4 bytes, the lowest
// row first unless the height is negative. Source: Microsoft, "Bitmap Storage"; BITMAPINFOHEADER to BITMAPV5HEADER.
#include <algorithm>
#include <array>
#include <bit>

#include "carillon/core/error.h"
#include "src/data/convert/picture_formats.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

constexpr std::size_t file_header_bytes = 14;

[[noreturn]] void fail_as_damaged() { fail(ExitCode::data, "is damaged: the file ends early"); }

/// The `count` bytes at `at`. Errors: data.
std::span<const std::uint8_t> part_of(std::span<const std::uint8_t> file, std::size_t at, std::size_t count) {
  if (at > file.size() || count > file.size() - at) fail_as_damaged();
  return file.subspan(at, count);
}

/// A little-endian number. Errors: data.
std::uint32_t number(std::span<const std::uint8_t> file, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : part_of(file, at, bytes)) value = value >> 8 | std::uint32_t{byte} << 24;
  return value >> (32 - 8 * bytes);
}

/// One channel of a pixel with channel masks.
struct Channel {
  std::uint32_t mask = 0;

  /// 0 to 255, rounded. Requires a mask.
  std::uint8_t of(std::uint32_t pixel) const {
    const int shift = std::countr_zero(mask);
    const std::uint64_t largest = mask >> shift;
    return static_cast<std::uint8_t>((std::uint64_t{(pixel & mask) >> shift} * 255 + largest / 2) / largest);
  }
};

struct Bitmap {
  std::size_t header_bytes = 0, pixels_at = 0;
  std::int64_t height = 0, width = 0;
  bool is_top_down = false;
  std::uint32_t bits = 0, compression = 0;
  std::array<Channel, 4> channels;  ///< red, green, blue, alpha
};

constexpr std::uint32_t uncompressed = 0, with_masks = 3, with_alpha_mask = 6;

Bitmap header_of(std::span<const std::uint8_t> file) {
  Bitmap bitmap;
  bitmap.pixels_at = number(file, 10, 4);
  bitmap.header_bytes = number(file, file_header_bytes, 4);
  const std::size_t at = file_header_bytes;
  if (bitmap.header_bytes == 12) {
    bitmap.width = number(file, at + 4, 2);
    bitmap.height = number(file, at + 6, 2);
    bitmap.bits = number(file, at + 10, 2);
    return bitmap;
  }
  if (bitmap.header_bytes < 40) throw UnsupportedPicture{"its header is of an unknown version"};
  bitmap.width = static_cast<std::int32_t>(number(file, at + 4, 4));
  bitmap.height = static_cast<std::int32_t>(number(file, at + 8, 4));
  bitmap.is_top_down = bitmap.height < 0;
  if (bitmap.is_top_down) bitmap.height = -bitmap.height;
  bitmap.bits = number(file, at + 14, 2);
  bitmap.compression = number(file, at + 16, 4);
  return bitmap;
}

void set_channels(std::span<const std::uint8_t> file, Bitmap& bitmap) {
  if (bitmap.compression == uncompressed) {
    if (bitmap.bits == 16) bitmap.channels = {Channel{0x7C00}, {0x03E0}, {0x001F}, {0}};
    if (bitmap.bits >= 24) bitmap.channels = {Channel{0xFF0000}, {0x00FF00}, {0x0000FF}, {0}};
    return;
  }
  const bool has_alpha = bitmap.compression == with_alpha_mask || bitmap.header_bytes >= 56;
  for (std::size_t i = 0; i < (has_alpha ? 4 : 3); ++i) {
    bitmap.channels[i].mask = number(file, file_header_bytes + 40 + 4 * i, 4);
    if (i < 3 && bitmap.channels[i].mask == 0) throw UnsupportedPicture{"it lacks a channel"};
  }
}

/// Red, green, blue, alpha of each value of a pixel.
std::vector<std::array<std::uint8_t, 4>> palette_of(std::span<const std::uint8_t> file, const Bitmap& bitmap) {
  const bool is_os2 = bitmap.header_bytes == 12;
  const std::size_t most = std::size_t{1} << bitmap.bits, entry_bytes = is_os2 ? 3 : 4;
  std::size_t count = is_os2 ? most : number(file, file_header_bytes + 32, 4);
  if (count == 0 || count > most) count = most;
  const auto stored = part_of(file, file_header_bytes + bitmap.header_bytes, count * entry_bytes);
  std::vector<std::array<std::uint8_t, 4>> palette(most, {0, 0, 0, 255});
  for (std::size_t i = 0; i < count; ++i) {
    const auto bgr = stored.subspan(i * entry_bytes, 3);
    palette[i] = {bgr[2], bgr[1], bgr[0], 255};
  }
  return palette;
}

}  // namespace

int read_bmp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  Bitmap bitmap = header_of(file);
  check_size(bitmap.height, bitmap.width);
  const bool has_masks = bitmap.compression == with_masks || bitmap.compression == with_alpha_mask;
  constexpr std::array<std::uint32_t, 7> known_bits{1, 2, 4, 8, 16, 24, 32};
  if (std::ranges::count(known_bits, bitmap.bits) == 0 || (bitmap.compression != uncompressed && !has_masks) ||
      (has_masks && bitmap.bits != 16 && bitmap.bits != 32)) {
    throw UnsupportedPicture{"compressed bitmaps are not supported"};
  }
  set_channels(file, bitmap);
  const bool has_palette = bitmap.bits <= 8;
  const auto palette = has_palette ? palette_of(file, bitmap) : std::vector<std::array<std::uint8_t, 4>>{};
  const auto height = static_cast<std::size_t>(bitmap.height), width = static_cast<std::size_t>(bitmap.width);
  const std::size_t row_bytes = (width * bitmap.bits + 31) / 32 * 4;
  const auto rows = part_of(file, bitmap.pixels_at, row_bytes * height);
  place_part(whole, {0, 0, bitmap.height, bitmap.width}, 1);
  for (std::size_t y = 0; y < height; ++y) {
    const auto row = rows.subspan((bitmap.is_top_down ? y : height - 1 - y) * row_bytes, row_bytes);
    std::uint8_t* out = whole.pixels.data() + y * width * 4;
    for (std::size_t x = 0; x < width; ++x, out += 4) {
      if (has_palette) {
        const std::size_t bit = x * bitmap.bits;
        const std::size_t index = row[bit / 8] >> (8 - bitmap.bits - bit % 8) & ((1u << bitmap.bits) - 1);
        std::ranges::copy(palette[index], out);
        continue;
      }
      const std::uint32_t pixel = number(row, x * bitmap.bits / 8, bitmap.bits / 8);
      for (std::size_t c = 0; c < 3; ++c) out[c] = bitmap.channels[c].of(pixel);
      out[3] = bitmap.channels[3].mask != 0 ? bitmap.channels[3].of(pixel) : 255;
    }
  }
  composite(whole.pixels.data(), whole.height * whole.width, background);
  return 1;
}

}  // namespace carillon
