// Decoding: pictures, or parts of them, out of JPEG (ITU-T T.81) and PNG (ISO/IEC 15948) files in memory, as RGB.
//
// Grey becomes equal values of all three. CMYK and YCCK are taken for Adobe's inverted form, as Pillow and TensorFlow
// do: R = C K / 255. Transparency is passed over, 16 bits are cut to the upper 8. Orientation and colour profiles that
// a file may name change nothing. What a reader of files from anywhere must fear is refused: cut and damaged data (a
// JPEG decoder alone would fill it in with grey), pictures of more pixels than `max_picture_pixels` or of longer sides
// than `max_picture_side`, progressive JPEGs of more than `max_jpeg_scans` or, in all, `max_jpeg_scan_pixels`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace carillon {

inline constexpr std::int64_t max_picture_pixels = 100'000'000;
inline constexpr std::int64_t max_picture_side = 65535;
inline constexpr int max_jpeg_scans = 500;
inline constexpr std::int64_t max_jpeg_scan_pixels = 2'000'000'000;

enum class PictureFormat { jpeg, png };

struct PictureInfo {
  PictureFormat format = PictureFormat::jpeg;
  std::int64_t height = 0, width = 0;
  int channels = 0;  ///< as stored: 1 grey, 3 colours (a PNG's palette too), 4 CMYK
};

/// What the file's first bytes say. Errors: data, saying what is wrong without the file's name (another format, more
/// pixels than are read).
PictureInfo picture_info(std::span<const std::uint8_t> file);

/// Part of a picture, in its pixels.
struct PictureBox {
  std::int64_t row = 0, column = 0, height = 0, width = 0;
};

/// What a picture is decoded for: a part that is resized afterwards.
struct PartRequest {
  PictureBox needed;  ///< within the picture: what is decoded at least
  /// The picture may come smaller, by a half, a quarter or an eighth, as long as each of its pixels still falls on a
  /// pixel or less of what it is resized to: by these factors, 1 or more to keep it whole.
  double vertical_scale = 1.0, horizontal_scale = 1.0;
};

/// Decoded pixels, four bytes each (red, green, blue, any), rows one after the other.
struct DecodedPart {
  std::vector<std::uint8_t> pixels;                    ///< [height][width][4]; grows only
  std::int64_t height = 0, width = 0;                  ///< of what is there
  std::int64_t row = 0, column = 0;                    ///< of its first pixel in the reduced picture
  std::int64_t reduction = 1;                          ///< the picture came so many times smaller: 1, 2, 4 or 8
  std::int64_t picture_height = 0, picture_width = 0;  ///< of the whole picture, not reduced

  const std::uint8_t* row_at(std::int64_t y) const { return pixels.data() + y * width * 4; }
};

/// Decodes what `request` needs of a picture into `part`. Errors: as picture_info; data (damage).
void decode_part(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// Decodes the whole picture, to the file's end.
void decode_whole(std::span<const std::uint8_t> file, DecodedPart& whole);

}  // namespace carillon
