// BMP: bitmaps of Windows and OS/2. Format: https://learn.microsoft.com/en-us/windows/win32/gdi/bitmap-storage.
//
// Reads pixels of 1, 2, 4 and 8 bits with a palette, which may be run-length encoded. Also reads pixels of 16, 24 and
// 32 bits with any masks.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "src/data/convert/picture_file.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

[[noreturn]] void fail_early_end() { fail(ExitCode::data, "is damaged: the file ends early"); }

using Rgba = std::array<std::uint8_t, 4>;

enum Compression : std::uint32_t { plain = 0, rle8 = 1, rle4 = 2, masks = 3, alpha_masks = 6 };

class BmpReader {
 public:
  explicit BmpReader(std::span<const std::uint8_t> file) : file_(file) {}

  /// Returns true if the pixels have alpha.
  bool read(DecodedPart& whole) {
    read_header();
    check_size(height_, width_);
    const bool has_runs = compression_ == rle8 || compression_ == rle4;
    if (!has_runs) check_rows();
    place_part(whole, {0, 0, height_, width_}, 1);
    if (has_runs) {
      read_runs(whole);
    } else {
      read_rows(whole);
    }
    return alpha_ != 0;
  }

 private:
  std::uint32_t number(std::size_t at, std::size_t bytes) const {
    if (at > file_.size() || bytes > file_.size() - at) fail_early_end();
    std::uint32_t value = 0;
    for (std::size_t i = bytes; i > 0; --i) value = value << 8 | file_[at + i - 1];
    return value;
  }

  void read_header() {
    pixels_at_ = number(10, 4);
    const std::uint32_t header_bytes = number(14, 4);
    const bool is_old = header_bytes == 12;
    width_ = is_old ? number(18, 2) : std::int64_t{static_cast<std::int32_t>(number(18, 4))};
    height_ = is_old ? number(20, 2) : std::int64_t{static_cast<std::int32_t>(number(22, 4))};
    bits_ = number(is_old ? 24 : 28, 2);
    compression_ = header_bytes >= 40 ? number(30, 4) : 0;
    is_top_down_ = height_ < 0;
    height_ = std::abs(height_);
    const bool is_palette = bits_ == 1 || bits_ == 2 || bits_ == 4 || bits_ == 8;
    const bool is_known = compression_ == plain || (compression_ == rle8 && bits_ == 8) ||
                          (compression_ == rle4 && bits_ == 4) ||
                          ((compression_ == masks || compression_ == alpha_masks) && (bits_ == 16 || bits_ == 32));
    if (!is_known || !(is_palette || bits_ == 16 || bits_ == 24 || bits_ == 32)) {
      throw UnsupportedPicture{
          fmt::format("{} bits a pixel with compression {} are not supported", bits_, compression_)};
    }
    if (is_palette) {
      read_palette(14 + std::size_t{header_bytes}, is_old ? 3 : 4, header_bytes >= 40 ? number(46, 4) : 0);
    } else {
      read_masks(header_bytes);
    }
  }

  void read_palette(std::size_t at, std::size_t entry_bytes, std::uint32_t stated) {
    const std::uint32_t most = 1U << bits_;
    const std::size_t room = pixels_at_ > at ? (pixels_at_ - at) / entry_bytes : 0;
    const std::size_t count = std::min<std::size_t>(stated > 0 ? std::min(stated, most) : most, room);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t colour = number(at + i * entry_bytes, 3);
      palette_[i] = {static_cast<std::uint8_t>(colour >> 16), static_cast<std::uint8_t>(colour >> 8),
                     static_cast<std::uint8_t>(colour), 255};
    }
    colour_count_ = count;
  }

  void read_masks(std::uint32_t header_bytes) {
    constexpr std::size_t masks_at = 54;
    if (compression_ == masks || compression_ == alpha_masks) {
      for (std::size_t i = 0; i < 3; ++i) masks_[i] = number(masks_at + 4 * i, 4);
      if (header_bytes >= 56 || compression_ == alpha_masks) alpha_ = number(masks_at + 12, 4);
    } else if (bits_ == 16) {
      masks_ = {0x7C00, 0x03E0, 0x001F};
    }
  }

  /// Returns the bits of `pixel` under `mask`, scaled to 0 to 255.
  static std::uint8_t part(std::uint32_t pixel, std::uint32_t mask) {
    if (mask == 0) return 0;
    const int shift = std::countr_zero(mask);
    const std::uint64_t value = (pixel & mask) >> shift, most = mask >> shift;
    return static_cast<std::uint8_t>((value * 255 + most / 2) / most);
  }

  std::uint8_t* pixel_at(DecodedPart& whole, std::int64_t row, std::int64_t column) const {
    return whole.pixels.data() + ((is_top_down_ ? row : height_ - 1 - row) * width_ + column) * 4;
  }

  Rgba colour_of(std::uint32_t index) const {
    if (index >= colour_count_) fail(ExitCode::data, "is damaged: a pixel has no colour");
    return palette_[index];
  }

  std::size_t row_bytes() const { return (static_cast<std::size_t>(width_) * bits_ + 31) / 32 * 4; }

  /// Checks that the file contains all rows; the padding of the last row may be missing. Errors: data.
  void check_rows() const {
    const std::size_t last = (static_cast<std::size_t>(width_) * bits_ + 7) / 8;
    const std::size_t needed = static_cast<std::size_t>(height_ - 1) * row_bytes() + last;
    if (pixels_at_ > file_.size() || needed > file_.size() - pixels_at_) fail_early_end();
  }

  /// In the file, each row is padded to a multiple of four bytes. The bottom row comes first, unless the height is
  /// negative.
  void read_rows(DecodedPart& whole) const {
    for (std::int64_t row = 0; row < height_; ++row) {
      const std::size_t begin = pixels_at_ + static_cast<std::size_t>(row) * row_bytes();
      std::uint8_t* out = pixel_at(whole, row, 0);
      for (std::int64_t column = 0; column < width_; ++column, out += 4) {
        const std::size_t bit = static_cast<std::size_t>(column) * bits_;
        if (bits_ <= 8) {
          const std::uint32_t byte = file_[begin + bit / 8];
          std::ranges::copy(colour_of(byte >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1)), out);
          continue;
        }
        const std::uint32_t pixel = number(begin + bit / 8, bits_ / 8);
        const Rgba colour{part(pixel, masks_[0]), part(pixel, masks_[1]), part(pixel, masks_[2]),
                          alpha_ != 0 ? part(pixel, alpha_) : std::uint8_t{255}};
        std::ranges::copy(colour, out);
      }
    }
  }

  /// Reads pairs of bytes. A pair is a count and a colour, or 0 and a command. Command 0 ends the row, 1 ends the
  /// picture, 2 moves to another pixel, and any other command n precedes n single pixels. Pixels that no run sets get
  /// the first colour of the palette.
  void read_runs(DecodedPart& whole) const {
    const Rgba first = colour_of(0);
    for (std::int64_t i = 0; i < height_ * width_; ++i) std::ranges::copy(first, whole.pixels.begin() + i * 4);
    std::int64_t row = 0, column = 0;
    const auto put = [&](std::uint32_t index) {
      if (row >= height_ || column >= width_) fail(ExitCode::data, "is damaged: a run leaves the picture");
      std::ranges::copy(colour_of(index), pixel_at(whole, row, column++));
    };
    const auto nibble = [](std::uint32_t byte, std::uint32_t i) { return i % 2 == 0 ? byte >> 4 : byte & 15; };
    for (std::size_t at = pixels_at_;;) {
      if (at >= file_.size() && row >= height_ - 1) return;  // some programs omit the command that ends the picture
      const std::uint32_t count = number(at, 1), value = number(at + 1, 1);
      at += 2;
      if (count > 0) {
        for (std::uint32_t i = 0; i < count; ++i) put(bits_ == 8 ? value : nibble(value, i));
      } else if (value == 0) {
        ++row;
        column = 0;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        column += number(at, 1);
        row += number(at + 1, 1);
        at += 2;
      } else {
        for (std::uint32_t i = 0; i < value; ++i) {
          put(bits_ == 8 ? number(at + i, 1) : nibble(number(at + i / 2, 1), i));
        }
        const std::size_t bytes = bits_ == 8 ? value : (value + 1) / 2;
        at += bytes + bytes % 2;
      }
    }
  }

  std::span<const std::uint8_t> file_;
  std::size_t pixels_at_ = 0, colour_count_ = 0;
  std::int64_t height_ = 0, width_ = 0;
  std::uint32_t bits_ = 0, compression_ = 0, alpha_ = 0;
  bool is_top_down_ = false;
  std::array<std::uint32_t, 3> masks_{0xFF0000, 0x00FF00, 0x0000FF};  // masks of red, green and blue
  std::array<Rgba, 256> palette_{};
};

}  // namespace

int read_bmp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  if (BmpReader(file).read(whole)) composite(whole.pixels.data(), whole.height * whole.width, background);
  return 1;
}

}  // namespace carillon
