#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

/// Enlarges each pixel to a square of `factor` x `factor` pixels.
Picture enlarged(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t factor) {
  Picture picture{.height = shape.height * factor, .width = shape.width * factor, .channels = 3, .pixels = {}};
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const std::int64_t pixel = y / factor * shape.width + x / factor;
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::int64_t at = pixel * shape.channels + (shape.channels == 3 ? c : 0);
        picture.pixels.push_back(image[static_cast<std::size_t>(at)]);
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
  resize(part, axis(picture.height, height), axis(picture.width, width), memory, width * 3, small.pixels);
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

constexpr int text_pixels = 12, line_height = 16;  // size of the font and distance between two lines, in pixels
constexpr std::int64_t gap = 6, text_gap = 3, cell_width = sheet_tile_side + gap;
constexpr std::uint8_t background = 64, ink = 255;
constexpr char32_t ellipsis = U'\u2026';

/// The paths of the font file DejaVu Sans in three groups of systems: Debian and Ubuntu, Fedora and its relatives, and
/// Arch and its relatives.
constexpr std::array font_files{"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
                                "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
                                "/usr/share/fonts/TTF/DejaVuSans.ttf"};

/// Writes text into a sheet with FreeType. If the font lacks a character, draws a box.
class Font {
 public:
  /// Errors: no_input (no font is installed).
  Font() {
    check(FT_Init_FreeType(&library_) == 0, "FreeType does not start");
    for (const char* const file : font_files) {
      if (FT_New_Face(library_, file, 0, &face_) == 0 && FT_Set_Pixel_Sizes(face_, 0, text_pixels) == 0) return;
    }
    FT_Done_FreeType(library_);
    fail(ExitCode::no_input, "the sheet needs the font DejaVu Sans: install the package fonts-dejavu-core");
  }
  ~Font() { FT_Done_FreeType(library_); }  // also frees the faces
  Font(const Font&) = delete;
  Font& operator=(const Font&) = delete;

  /// Writes a line. If the line is longer than a tile, an ellipsis replaces its end.
  void write(Picture& sheet, std::int64_t top, std::int64_t left, std::string_view line) const {
    std::u32string characters;
    for (std::size_t bytes = 0; !line.empty(); line.remove_prefix(bytes)) {
      const Character character = first_character(line);
      bytes = std::max<std::size_t>(character.bytes, 1);
      characters += character.bytes > 0 ? character.code : U'\uFFFD';
    }
    if (width_of(characters) > sheet_tile_side) {
      while (!characters.empty() && width_of(characters + ellipsis) > sheet_tile_side) characters.pop_back();
      characters += ellipsis;
    }
    std::int64_t x = left;
    for (const char32_t character : characters) {
      load(character, FT_LOAD_RENDER);
      draw(sheet, top + text_pixels, x);
      x += advance();
    }
  }

 private:
  void load(char32_t character, FT_Int32 flags) const {
    check(FT_Load_Char(face_, character, flags) == 0, "the font is damaged");
  }
  /// Returns the advance of the loaded character, in pixels.
  std::int64_t advance() const { return face_->glyph->advance.x / 64; }
  std::int64_t width_of(const std::u32string& characters) const {
    std::int64_t width = 0;
    for (const char32_t character : characters) {
      load(character, FT_LOAD_DEFAULT);
      width += advance();
    }
    return width;
  }
  /// Draws the loaded character. `base`: row of the base line.
  void draw(Picture& sheet, std::int64_t base, std::int64_t left) const {
    const FT_GlyphSlot glyph = face_->glyph;
    const FT_Bitmap& bitmap = glyph->bitmap;
    for (std::int64_t row = 0; row < bitmap.rows; ++row) {
      for (std::int64_t column = 0; column < bitmap.width; ++column) {
        const std::int64_t y = base - glyph->bitmap_top + row, x = left + glyph->bitmap_left + column;
        if (y < 0 || y >= sheet.height || x < 0 || x >= sheet.width) continue;
        const int cover = bitmap.buffer[row * bitmap.pitch + column];
        const auto first = sheet.pixels.begin() + (y * sheet.width + x) * 3;
        const auto shade = static_cast<std::uint8_t>(*first + (ink - *first) * cover / 255);
        std::fill_n(first, 3, shade);
      }
    }
  }

  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

void put_tile(Picture& sheet, const SheetTile& tile, const Font& font, std::int64_t top, std::int64_t left) {
  check(tile.height <= sheet_tile_side && tile.width <= sheet_tile_side &&
            tile.pixels.size() == static_cast<std::size_t>(tile.height * tile.width * 3),
        "a tile is larger than its place in the sheet");
  const std::int64_t down = top + (sheet_tile_side - tile.height) / 2,
                     right = left + (sheet_tile_side - tile.width) / 2;
  for (std::int64_t y = 0; y < tile.height; ++y) {
    std::copy_n(tile.pixels.begin() + y * tile.width * 3, tile.width * 3,
                sheet.pixels.begin() + ((down + y) * sheet.width + right) * 3);
  }
  std::int64_t line_top = top + sheet_tile_side + text_gap;
  for (std::size_t begin = 0, end = 0; end < tile.text.size(); begin = end + 1, line_top += line_height) {
    end = std::min(tile.text.find('\n', begin), tile.text.size());
    font.write(sheet, line_top, left, std::string_view(tile.text).substr(begin, end - begin));
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
  const Font font;
  for (std::int64_t i = 0; i < count; ++i) {
    put_tile(sheet, tiles[static_cast<std::size_t>(i)], font, gap + i / columns * cell_height,
             gap + i % columns * cell_width);
  }
  return sheet;
}

}  // namespace carillon
