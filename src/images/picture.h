// Pictures: encoders and decoders of the image formats, orientation, resizing, thumbnails, and sheets of small pictures
// with text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/images/decode.h"
#include "carillon/images/view.h"

namespace carillon {

/// An image [height, width, channels], with 1 channel (grey) or 3 channels (RGB).
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// Encodes a PNG file (ISO/IEC 15948). Errors: failed (the image has neither 1 nor 3 channels, or the number of pixels
/// is wrong).
std::string encode_png(const Picture& picture);

/// Encodes a baseline JPEG file (ITU-T T.81) with 4:2:0 subsampling. `quality`: 1 to 100, as in libjpeg. Errors: see
/// encode_png.
std::string encode_jpeg(const Picture& picture, int quality);

/// Makes a thumbnail of `image`, [height][width][channels]. If there are 3 channels, they are red, green and blue.
/// Otherwise the first channel is shown as grey. An image that is larger than `side` is reduced until its longer side
/// has `side` pixels, with antialiasing. A smaller image is enlarged by the largest whole factor that fits, so that its
/// pixels stay squares. Requires `image` to have the size of `shape`.
Picture make_thumbnail(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t side);

/// A picture of a sheet: RGB, [height][width][3], at most `sheet_tile_side` pixels per side.
struct SheetTile {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::string text;  ///< UTF-8; an ellipsis replaces the end of a long line
};

inline constexpr std::int64_t sheet_tile_side = 112;

/// Draws the tiles row by row on a grey background. The numbers of rows and columns are about equal. Requires at least
/// one tile. Errors: no_input (the font is not installed).
Picture make_sheet(const std::vector<SheetTile>& tiles);

// The decoders of the image formats, and their common functions.

PictureInfo jpeg_info(std::span<const std::uint8_t> file);
void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

PictureInfo png_info(std::span<const std::uint8_t> file);
void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// The 16-bit samples of a picture. A pixel has 1 sample (grey) or 3 samples (RGB).
struct DeepPixels {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint16_t> samples;  ///< [height][width][1 or 3]
};

/// Returns the samples of a PNG file that has 16 bits per sample and no transparency. Returns nullopt for any other
/// file. Errors: data (the file is damaged); TooLargePicture.
std::optional<DeepPixels> deep_png_pixels(std::span<const std::uint8_t> file);

/// The kind of a file can be determined from this number of bytes at its start.
inline constexpr std::size_t picture_kind_bytes = 64;

/// Returns the kind of a picture file that is neither JPEG nor PNG. Uses the first bytes of the file. The kinds are
/// TIFF, WebP, BMP, PNM, GIF, HEIF, AVIF, JPEG XL or JPEG 2000. Returns an empty text if the kind is unknown.
std::string_view other_picture_kind(std::span<const std::uint8_t> file);

/// True if the first bytes show that the file is a JPEG file, a PNG file, or a file of a kind that other_picture_kind
/// knows.
bool begins_as_picture(std::span<const std::uint8_t> file);

/// Checks the size of a picture. Errors: data (the picture has no pixels); TooLargePicture (it has more than
/// `max_picture_pixels` pixels, or a side longer than `max_picture_side`).
void check_size(std::int64_t height, std::int64_t width);

/// Checks the channels and the number of pixels of `picture`. Errors: failed (it has neither 1 nor 3 channels, or the
/// number of pixels is wrong).
void check_pixels(const Picture& picture);

/// Blends `count` pixels of red, green, blue and alpha with the background: alpha c + (1 - alpha) background, rounded.
/// Ignores the gamma of the file, as Pillow does. libpng's own compositing would apply the gamma.
void composite(std::uint8_t* pixels, std::int64_t count, const Colour& background);

/// Sets the position, size and reduction of `part`, and enlarges its memory for the pixels of `box` if necessary.
void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction);

// Orientation: the way in which a program must rotate and mirror the stored pixels of a picture to show them (tag
// 0x0112 of EXIF and TIFF).

/// Returns the orientation that the EXIF block of a JPEG file states, 1 to 8. Returns 1 if the block is absent or
/// malformed. Reads only within `file`.
int exif_orientation(std::span<const std::uint8_t> file);

/// Returns the orientation in a block that starts with a TIFF header, as in EXIF. Returns 1 if the block states no
/// orientation or is malformed.
int tiff_orientation(std::span<const std::uint8_t> block);

/// True for the orientations 5 to 8, for which stored rows are shown as columns.
bool swaps_sides(int orientation);

/// Converts `shown`, a rectangle of the picture as it is shown, to a rectangle of the picture as it is stored.
PictureBox stored_box(const PictureBox& shown, const PictureInfo& info);

/// Rotates and mirrors the pixels of `part`, a part of the stored picture. Changes the position of `part` to its
/// position in the picture as it is shown. `stored_height`, `stored_width`: size of the whole stored picture before its
/// reduction.
void orient(DecodedPart& part, int orientation, std::int64_t stored_height, std::int64_t stored_width);

// Resize: each output pixel is a weighted sum of source pixels. The vertical pass runs first, then the horizontal pass.
//
// Weights and intermediate values are integers that are exact in float32. Therefore all processors compute equal bits,
// with and without fused multiply-add.

/// One side of a resize: pixel i is the sum over t of weights[i * taps + t] * source[first[i] + t].
struct ResizeAxis {
  static constexpr int weight_bits = 11;  ///< number of fraction bits of the weights: 2^weight_bits means 1

  std::vector<std::int32_t> first;
  std::vector<float> weights;  ///< integers >= 0; the weights of each pixel have the sum 2^weight_bits
  int taps = 0;

  std::int64_t begin() const;  ///< the first source pixel that is read
  std::int64_t end() const;
};

/// Parameters of an axis. Positions and lengths are in source pixels, unless a comment says output pixels.
struct AxisRequest {
  double begin = 0.0, length = 0.0;    ///< the range that is resized
  std::int64_t lowest = 0, limit = 0;  ///< only the pixels [lowest, limit) may be read
  std::int64_t resized = 0;            ///< number of output pixels for the whole range `length`
  std::int64_t first = 0, count = 0;   ///< only the output pixels [first, first + count) are computed
};

ResizeAxis make_axis(const AxisRequest& request, Resampling resampling);

/// Reverses the order of the output pixels of an axis.
void mirror(ResizeAxis& axis);

/// Resizes `part` to rows.first.size() x columns.first.size() pixels. The source indices of the axes refer to the
/// reduced picture of the part. `out`: [rows][row_bytes]; each row begins with [columns][3] bytes of pixels.
void resize(const DecodedPart& part, const ResizeAxis& rows, const ResizeAxis& columns, ViewMemory& memory,
            std::int64_t row_bytes, std::span<std::uint8_t> out);

}  // namespace carillon
