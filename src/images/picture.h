// Picture: pixels in memory, encoders to PNG and JPEG, thumbnails, and sheets of small pictures with text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"

namespace carillon {

/// An image [height, width, channels], 1 channel (grey) or 3 (RGB).
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// Encodes a PNG file (ISO/IEC 15948). Errors: failed (not 1 or 3 channels, or a wrong number of pixels).
std::string encode_png(const Picture& picture);

/// Encodes a baseline JPEG file (ITU-T T.81) with 4:2:0 subsampling. `quality`: 1 to 100, as in libjpeg. Errors: as
/// encode_png.
std::string encode_jpeg(const Picture& picture, int quality);

/// `image`: planes [channels][height][width]; 3 channels are red, green and blue, of another number the first is grey.
/// An image that is larger than `side` is reduced until its longer side has `side` pixels, with antialiasing. A smaller
/// one is enlarged by the largest whole factor that fits, so that its pixels stay squares. Requires `image` to have the
/// size of `shape`.
Picture make_thumbnail(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t side);

/// A picture of a sheet: RGB, [height][width][3], at most `sheet_tile_side` pixels per side.
struct SheetTile {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::string text;  ///< UTF-8; the end of a long line is replaced by an ellipsis
};

inline constexpr std::int64_t sheet_tile_side = 112;

/// Draws the tiles row by row on grey, with about as many columns as rows. Requires at least one tile. Errors: no_input
/// (the font is not installed).
Picture make_sheet(const std::vector<SheetTile>& tiles);

}  // namespace carillon
