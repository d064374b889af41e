#include "src/images/picture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "carillon/core/error.h"
#include "src/images/resize.h"

namespace carillon {
namespace {

/// Each pixel as a square of `factor` x `factor` pixels.
Picture enlarged(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t factor) {
  Picture picture{.height = shape.height * factor, .width = shape.width * factor, .channels = 3, .pixels = {}};
  const std::int64_t plane = shape.height * shape.width;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const std::int64_t pixel = y / factor * shape.width + x / factor;
      for (std::int64_t c = 0; c < 3; ++c) {
        picture.pixels.push_back(image[static_cast<std::size_t>((shape.channels == 3 ? c * plane : 0) + pixel)]);
      }
    }
  }
  return picture;
}

Picture reduced(const Picture& picture, std::int64_t height, std::int64_t width) {
  DecodedPart part{.height = picture.height,
                   .width = picture.width,
                   .picture_height = picture.height,
                   .picture_width = picture.width};
  for (std::size_t i = 0; i < picture.pixels.size(); i += 3) {
    part.pixels.insert(part.pixels.end(), {picture.pixels[i], picture.pixels[i + 1], picture.pixels[i + 2], 0});
  }
  const auto axis = [](std::int64_t length, std::int64_t resized) {
    return make_axis({.length = static_cast<double>(length), .limit = length, .resized = resized, .count = resized},
                     Resampling::antialiased);
  };
  Picture small{.height = height, .width = width, .channels = 3, .pixels = {}};
  small.pixels.resize(static_cast<std::size_t>(height * width * 3));
  ViewMemory memory;
  resize(part, axis(picture.height, height), axis(picture.width, width), memory,
         {.plane = 1, .row = width * 3, .pixel = 3}, small.pixels);
  return small;
}

}  // namespace

Picture make_thumbnail(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t side) {
  check(image.size() == shape.bytes() && !image.empty() && side > 0, "an image has another size");
  const std::int64_t longest = std::max(shape.height, shape.width);
  Picture picture = enlarged(shape, image, std::max<std::int64_t>(1, side / longest));
  if (longest <= side) return picture;
  const auto shrunk = [&](std::int64_t extent) { return std::max<std::int64_t>(1, extent * side / longest); };
  return reduced(picture, shrunk(shape.height), shrunk(shape.width));
}

namespace {

/// Characters of 3 x 5 pixels: five octal digits, one per row, from the top.
struct Glyph {
  char character;
  std::string_view rows;
};
constexpr Glyph glyphs[] = {
    {' ', "00000"}, {'0', "75557"}, {'1', "26227"}, {'2', "71747"}, {'3', "71717"},  {'4', "55711"}, {'5', "74717"},
    {'6', "74757"}, {'7', "71122"}, {'8', "75757"}, {'9', "75717"}, {'A', "25755"},  {'B', "65656"}, {'C', "34443"},
    {'D', "65556"}, {'E', "74647"}, {'F', "74644"}, {'G', "34553"}, {'H', "55755"},  {'I', "72227"}, {'J', "11152"},
    {'K', "55655"}, {'L', "44447"}, {'M', "57755"}, {'N', "65555"}, {'O', "25552"},  {'P', "65644"}, {'Q', "25563"},
    {'R', "65655"}, {'S', "34216"}, {'T', "72222"}, {'U', "55557"}, {'V', "55552"},  {'W', "55775"}, {'X', "55255"},
    {'Y', "55222"}, {'Z', "71247"}, {'-', "00700"}, {'_', "00007"}, {'.', "00002"},  {',', "00024"}, {':', "02020"},
    {'/', "11244"}, {'(', "12221"}, {')', "42224"}, {'+', "02720"}, {'\'', "22000"}, {'&', "25253"}, {'>', "42124"},
    {'%', "51245"}};
constexpr std::string_view unknown_rows = "77777";

constexpr std::int64_t glyph_scale = 2, glyph_width = 4 * glyph_scale, glyph_height = 5 * glyph_scale;
constexpr std::int64_t gap = 6, text_gap = 3, cell_width = sheet_tile_side + gap, line_height = text_gap + glyph_height;
constexpr std::uint8_t background = 64, ink = 255;

std::string_view rows_of(char character) {
  const char capital = static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
  const auto found = std::ranges::find(glyphs, capital, &Glyph::character);
  return found == std::end(glyphs) ? unknown_rows : found->rows;
}

void set_pixel(Picture& sheet, std::int64_t y, std::int64_t x, std::uint8_t value) {
  std::fill_n(sheet.pixels.begin() + (y * sheet.width + x) * 3, 3, value);
}

void write_character(Picture& sheet, std::int64_t top, std::int64_t left, char character) {
  const std::string_view rows = rows_of(character);
  for (std::int64_t y = 0; y < glyph_height; ++y) {
    const int bits = rows[static_cast<std::size_t>(y / glyph_scale)] - '0';
    for (std::int64_t x = 0; x < 3 * glyph_scale; ++x) {
      if ((bits >> (2 - x / glyph_scale) & 1) != 0) set_pixel(sheet, top + y, left + x, ink);
    }
  }
}

void put_tile(Picture& sheet, const SheetTile& tile, std::int64_t top, std::int64_t left) {
  check(tile.height <= sheet_tile_side && tile.width <= sheet_tile_side &&
            tile.pixels.size() == static_cast<std::size_t>(tile.height * tile.width * 3),
        "a tile is larger than its place in the sheet");
  const std::int64_t down = top + (sheet_tile_side - tile.height) / 2,
                     right = left + (sheet_tile_side - tile.width) / 2;
  for (std::int64_t y = 0; y < tile.height; ++y) {
    std::copy_n(tile.pixels.begin() + y * tile.width * 3, tile.width * 3,
                sheet.pixels.begin() + ((down + y) * sheet.width + right) * 3);
  }
  std::int64_t line = top + sheet_tile_side + text_gap, column = 0;
  for (const char character : tile.text) {
    if (character == '\n') {
      line += line_height;
      column = 0;
    } else if (column < sheet_tile_side / glyph_width) {
      write_character(sheet, line, left + column * glyph_width, character);
      column += 1;
    }
  }
}

std::int64_t line_count(const SheetTile& tile) { return 1 + std::ranges::count(tile.text, '\n'); }

}  // namespace

Picture make_sheet(const std::vector<SheetTile>& tiles) {
  check(!tiles.empty(), "a sheet requires a tile");
  const auto count = std::ssize(tiles);
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t lines = line_count(*std::ranges::max_element(tiles, {}, line_count)),
                     cell_height = sheet_tile_side + lines * line_height + gap;
  Picture sheet{.height = (count + columns - 1) / columns * cell_height + gap,
                .width = columns * cell_width + gap,
                .channels = 3,
                .pixels = {}};
  sheet.pixels.assign(static_cast<std::size_t>(sheet.height * sheet.width * 3), background);
  for (std::int64_t i = 0; i < count; ++i) {
    put_tile(sheet, tiles[static_cast<std::size_t>(i)], gap + i / columns * cell_height,
             gap + i % columns * cell_width);
  }
  return sheet;
}

}  // namespace carillon
