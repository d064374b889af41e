#include "src/images/picture.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace carillon {
namespace {

using namespace std::string_view_literals;

bool starts_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(magic);
}

/// Describes how a picture is stored. A pixel that is shown in row y and column x is stored in row y and column x. If
/// the sides are swapped, the pixel is stored in row x and column y. If a side is reversed, its rows or columns count
/// from the end.
struct Turn {
  bool swaps_sides, reverses_rows, reverses_columns;  // reverses_*: rows and columns of the stored picture
};
constexpr Turn turns[] = {{false, false, false}, {false, false, true}, {false, true, true}, {false, true, false},
                          {true, false, false},  {true, true, false},  {true, true, true},  {true, false, true}};

Turn turn_of(int orientation) { return turns[orientation - 1]; }

/// Reads unsigned numbers from a block, in the byte order of the block.
class Numbers {
 public:
  Numbers(std::span<const std::uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  bool holds(std::uint64_t offset, std::uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  /// Returns the number that the `count` bytes at `offset` store. Requires holds(offset, count).
  std::uint32_t at(std::uint64_t offset, std::size_t count) const {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      number = number << 8 | bytes_[static_cast<std::size_t>(offset) + (big_endian_ ? i : count - 1 - i)];
    }
    return number;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

int tiff_orientation(std::span<const std::uint8_t> block) {
  const bool big_endian = starts_with(block, "MM\0*"sv);
  if (!big_endian && !starts_with(block, "II*\0"sv)) return 1;
  constexpr std::uint64_t entry_bytes = 12;
  constexpr std::uint32_t orientation_tag = 0x0112, short_type = 3, long_type = 4;
  const Numbers numbers(block, big_endian);
  if (!numbers.holds(4, 4)) return 1;
  const std::uint64_t directory = numbers.at(4, 4);
  if (!numbers.holds(directory, 2)) return 1;
  const std::uint64_t count = numbers.at(directory, 2);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t entry = directory + 2 + i * entry_bytes;
    if (!numbers.holds(entry, entry_bytes)) return 1;
    if (numbers.at(entry, 2) != orientation_tag) continue;
    const std::uint32_t type = numbers.at(entry + 2, 2), value_count = numbers.at(entry + 4, 4);
    if (value_count != 1 || (type != short_type && type != long_type)) return 1;
    const std::uint32_t value = numbers.at(entry + 8, type == short_type ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

int exif_orientation(std::span<const std::uint8_t> file) {
  constexpr std::string_view exif = "Exif\0\0"sv;
  constexpr std::uint8_t app1 = 0xE1, start_of_scan = 0xDA, end_of_image = 0xD9, temporary = 0x01;
  const auto has_no_length = [](std::uint8_t marker) {
    return marker == temporary || (marker >= 0xD0 && marker <= 0xD7);
  };
  for (std::size_t at = 2; at + 4 <= file.size() && file[at] == 0xFF;) {
    const std::uint8_t marker = file[at + 1];
    if (marker == start_of_scan || marker == end_of_image) break;
    if (marker == 0xFF) {  // extra 0xFF bytes are padding
      ++at;
      continue;
    }
    if (has_no_length(marker)) {
      at += 2;
      continue;
    }
    const std::size_t length = std::size_t{file[at + 2]} << 8 | file[at + 3];  // the length includes its own two bytes
    if (length < 2 || length > file.size() - at - 2) break;
    const std::span<const std::uint8_t> segment = file.subspan(at + 4, length - 2);
    if (marker == app1 && starts_with(segment, exif)) return tiff_orientation(segment.subspan(exif.size()));
    at += 2 + length;
  }
  return 1;
}

bool swaps_sides(int orientation) { return turn_of(orientation).swaps_sides; }

PictureBox stored_box(const PictureBox& shown, const PictureInfo& info) {
  const Turn turn = turn_of(info.orientation);
  PictureBox stored = shown;
  std::int64_t height = info.height, width = info.width;
  if (turn.swaps_sides) {
    stored = {shown.column, shown.row, shown.width, shown.height};
    std::swap(height, width);
  }
  if (turn.reverses_rows) stored.row = height - stored.row - stored.height;
  if (turn.reverses_columns) stored.column = width - stored.column - stored.width;
  return stored;
}

void orient(DecodedPart& part, int orientation, std::int64_t stored_height, std::int64_t stored_width) {
  if (orientation == 1) return;
  const Turn turn = turn_of(orientation);
  const std::int64_t height = part.height, width = part.width;  // size of the stored part
  // The pixel that is shown at (y, x) is stored at the index first + y * down + x * right.
  const std::int64_t first = (turn.reverses_rows ? (height - 1) * width : 0) + (turn.reverses_columns ? width - 1 : 0);
  std::int64_t down = turn.reverses_rows ? -width : width, right = turn.reverses_columns ? -1 : 1;
  const auto reverse = [&part](std::int64_t& begin, std::int64_t length, std::int64_t side, std::int64_t& padding) {
    const std::int64_t reduced = divided_up(side, part.reduction);
    begin = reduced - begin - length;
    padding = reduced * part.reduction - side;
  };
  if (turn.reverses_rows) reverse(part.row, height, stored_height, part.row_padding);
  if (turn.reverses_columns) reverse(part.column, width, stored_width, part.column_padding);
  if (turn.swaps_sides) {
    std::swap(down, right);
    std::swap(part.row, part.column);
    std::swap(part.height, part.width);
    std::swap(part.row_padding, part.column_padding);
  }
  std::vector<std::uint8_t> shown(static_cast<std::size_t>(height * width) * 4);
  // If the sides are swapped, the loop processes 16 rows at once, so that it reads whole cache lines of the stored
  // picture.
  constexpr std::int64_t rows_at_once = 16;
  for (std::int64_t top = 0; top < part.height; top += rows_at_once) {
    const std::int64_t bottom = std::min(top + rows_at_once, part.height);
    for (std::int64_t x = 0; x < part.width; ++x) {
      const std::int64_t column = first + x * right;
      for (std::int64_t y = top; y < bottom; ++y) {
        std::copy_n(part.pixels.data() + (column + y * down) * 4, 4, shown.data() + (y * part.width + x) * 4);
      }
    }
  }
  part.pixels.swap(shown);
}

}  // namespace carillon
