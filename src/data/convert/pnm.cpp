// PNM: Netpbm's bitmaps (P1, P4), grey pictures (P2, P5) and colour pictures (P3, P6), with samples as text or as
// bytes. Format: https://netpbm.sourceforge.net/doc/pnm.html.
#include <algorithm>
#include <vector>

#include "src/data/convert/picture_file.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

[[noreturn]] void fail_early_end() { fail(ExitCode::data, "is damaged: the file ends early"); }

bool is_white(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class PnmReader {
 public:
  explicit PnmReader(std::span<const std::uint8_t> file) : file_(file) {}

  void read(DecodedPart& whole) {
    const int kind = file_[1] - '0';
    const bool is_bitmap = kind == 1 || kind == 4, is_text = kind <= 3;
    const std::int64_t width = number(), height = number();
    most_ = is_bitmap ? 1 : number();
    check_size(height, width);
    if (most_ < 1 || most_ > 65535) fail(ExitCode::data, "is damaged: its largest value is {}", most_);
    if (!is_text) ++at_;  // skips exactly one white-space character
    const std::int64_t channels = kind == 3 || kind == 6 ? 3 : 1;
    const std::int64_t row_samples = width * channels;
    const std::int64_t row_bytes = kind == 4 ? (width + 7) / 8 : row_samples * (most_ > 255 && !is_text ? 2 : 1);
    if (height * row_bytes > std::ssize(file_) - static_cast<std::int64_t>(at_)) fail_early_end();
    std::vector<std::uint16_t> samples(static_cast<std::size_t>(height * width * channels));
    std::size_t i = 0;
    for (std::int64_t row = 0; row < height; ++row) {
      for (std::int64_t j = 0; j < row_samples; ++j, ++i) {
        samples[i] = is_text ? text_sample(is_bitmap) : kind == 4 ? bit(j) : byte_sample();
      }
      if (kind == 4) at_ += static_cast<std::size_t>(row_bytes);
    }
    if (most_ == 65535) return place_deep_pixels(samples, height, width, whole);
    place_part(whole, {0, 0, height, width}, 1);
    for (std::size_t pixel = 0; pixel < static_cast<std::size_t>(height * width); ++pixel) {
      for (std::size_t c = 0; c < 3; ++c) {
        const std::int64_t value = std::min<std::int64_t>(samples[channels == 3 ? pixel * 3 + c : pixel], most_);
        const std::int64_t light = is_bitmap ? 1 - value : value;  // in a bitmap, 1 is black
        whole.pixels[pixel * 4 + c] = static_cast<std::uint8_t>((light * 255 + most_ / 2) / most_);
      }
    }
  }

 private:
  std::uint8_t byte(std::size_t at) const {
    if (at >= file_.size()) fail_early_end();
    return file_[at];
  }

  void skip_white() {
    for (; is_white(byte(at_)) || file_[at_] == '#'; ++at_) {
      if (file_[at_] != '#') continue;
      while (byte(at_) != '\n' && file_[at_] != '\r') ++at_;
    }
  }

  std::int64_t number() {
    skip_white();
    std::int64_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9' && value < 1'000'000; ++at_) {
      value = value * 10 + (file_[at_] - '0');
    }
    if (at_ == begin) fail(ExitCode::data, "is damaged: it has no number at byte {}", at_);
    return value;
  }

  /// Reads a sample that is written as text. `is_digit`: the sample is one digit of a bitmap, and no space need
  /// separate it from the next digit.
  std::uint16_t text_sample(bool is_digit) {
    if (!is_digit) return static_cast<std::uint16_t>(std::min<std::int64_t>(number(), 65535));
    skip_white();
    return byte(at_++) != '0' ? 1 : 0;
  }

  std::uint16_t bit(std::int64_t column) const {
    return static_cast<std::uint16_t>(byte(at_ + static_cast<std::size_t>(column / 8)) >> (7 - column % 8) & 1);
  }

  /// Reads a sample that is written as bytes. If the largest value requires two bytes, the sample has two bytes, the
  /// higher byte first.
  std::uint16_t byte_sample() {
    const std::uint16_t first = byte(at_++);
    return most_ < 256 ? first : static_cast<std::uint16_t>(first << 8 | byte(at_++));
  }

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 2;
  std::int64_t most_ = 1;
};

}  // namespace

int read_pnm(std::span<const std::uint8_t> file, const Colour& /*background*/, DecodedPart& whole) {
  PnmReader(file).read(whole);
  return 1;
}

}  // namespace carillon
