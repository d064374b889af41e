// Decode: JPEG (ITU-T T.81) and PNG (ISO/IEC 15948) files in memory, or parts of such pictures, to RGB.
//
// A JPEG with an EXIF orientation is decoded as it is shown: rotated and mirrored. Transparent pixels of a PNG are
// composited on a background colour, white by default: alpha c + (1 - alpha) background, rounded. Grey becomes three
// equal channels. CMYK and YCCK are read as Adobe's inverted format, as in Pillow and TensorFlow: R = C K / 255. 16-bit
// channels are truncated to the upper 8 bits. Colour profiles are ignored.
//
// The decoder refuses these files:
// - truncated or damaged files (libjpeg alone would fill the missing pixels with grey)
// - pictures with more than `max_picture_pixels` pixels, or with a side longer than `max_picture_side`
// - progressive JPEGs with more than `max_jpeg_scans` scans, or with more than `max_jpeg_scan_pixels` pixels in all
//   scans
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {

inline constexpr std::int64_t max_picture_pixels = 100'000'000;
inline constexpr std::int64_t max_picture_side = 65535;
inline constexpr int max_jpeg_scans = 500;
inline constexpr std::int64_t max_jpeg_scan_pixels = 2'000'000'000;

/// The error for a picture that has more than max_picture_pixels pixels, or a side longer than max_picture_side. Its
/// code is `data`.
class TooLargePicture : public Error {
 public:
  using Error::Error;
};

enum class PictureFormat { jpeg, png };

struct PictureInfo {
  PictureFormat format = PictureFormat::jpeg;
  std::int64_t height = 0, width = 0;  ///< size as shown: after the orientation is applied
  int channels = 0;                    ///< channels that the file stores: 1 grey, 3 colour (also for a PNG palette), 4
                                       ///< CMYK
  bool has_transparency = false;       ///< a PNG with an alpha channel or transparent colours
  int orientation = 1;  ///< EXIF orientation of a JPEG: 1 (as stored) to 8; 1 if EXIF is absent or malformed
};

struct Colour {
  std::uint8_t red = 255, green = 255, blue = 255;

  bool operator==(const Colour&) const = default;
};

/// Parses a colour: `#rrggbb`, "white" or "black". Returns nullopt for any other text.
std::optional<Colour> parse_colour(std::string_view text);
/// Returns the colour as the text `#rrggbb`.
std::string colour_text(const Colour& colour);

/// Reads format and size from the header. Errors: data (the format is unknown; the picture has too many pixels). The
/// message does not contain the file name.
PictureInfo picture_info(std::span<const std::uint8_t> file);

/// A rectangle of a picture, in pixels.
struct PictureBox {
  std::int64_t row = 0, column = 0, height = 0, width = 0;
};

/// The part of a picture to decode, and the scale of the resize that follows.
struct PartRequest {
  PictureBox needed;  ///< rectangle that the caller needs, in the picture as it is shown
  /// Output pixels per source pixel of the resize that follows. If both scales are at most 1/2, 1/4 or 1/8, the decoder
  /// may decode the picture at this fraction of its size. With a scale of 1 or more, the decoder uses the full size of
  /// the picture.
  double vertical_scale = 1.0, horizontal_scale = 1.0;
  Colour background = {};  ///< colour behind transparent pixels
};

/// Decoded pixels, four bytes each (red, green, blue, unused), row by row.
struct DecodedPart {
  std::vector<std::uint8_t> pixels;    ///< [height][width][4]; the vector may be longer than this
  std::int64_t height = 0, width = 0;  ///< size of the decoded rectangle
  std::int64_t row = 0, column = 0;    ///< position of the first pixel in the reduced picture
  std::int64_t reduction = 1;          ///< factor by which the picture was reduced: 1, 2, 4 or 8
  /// Pixel i of the reduced picture covers `reduction` original pixels, which begin at i * reduction - padding. The
  /// padding (row_padding or column_padding) is above 0 and below `reduction` if the EXIF orientation reverses this
  /// side and its length is not a multiple of `reduction`. Otherwise the padding is 0.
  std::int64_t row_padding = 0, column_padding = 0;
  std::int64_t picture_height = 0, picture_width = 0;  ///< size of the whole picture before reduction

  const std::uint8_t* row_at(std::int64_t y) const { return pixels.data() + y * width * 4; }
};

/// Decodes the rectangle of `request` into `part`. Errors: as picture_info; data (the file is damaged).
void decode_part(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// Decodes the whole picture, and reads the file to its end, to find all damage. Errors: as decode_part.
void decode_whole(std::span<const std::uint8_t> file, DecodedPart& whole);

}  // namespace carillon
