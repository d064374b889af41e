// The decoder of each image format, and what they share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/images/decode.h"
#include "src/images/picture.h"

namespace carillon {

PictureInfo jpeg_info(std::span<const std::uint8_t> file);
void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

PictureInfo png_info(std::span<const std::uint8_t> file);
void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// The 16-bit samples of a picture: 1 (grey) or 3 (RGB) for a pixel.
struct DeepPixels {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint16_t> samples;  ///< [height][width][1 or 3]
};

/// The samples of a PNG file that has 16 bits a sample and no transparency; nullopt for any other file. Errors: data
/// (damage); TooLargePicture.
std::optional<DeepPixels> deep_png_pixels(std::span<const std::uint8_t> file);

/// The number of first bytes of a file that determine its kind.
inline constexpr std::size_t picture_kind_bytes = 64;

/// The kind of a picture file that is neither JPEG nor PNG, by its first bytes: TIFF, WebP, BMP, PNM, GIF, HEIF, AVIF,
/// JPEG XL or JPEG 2000. Empty if the kind is unknown.
std::string_view other_picture_kind(std::span<const std::uint8_t> file);

/// Whether the first bytes are those of a JPEG file, a PNG file or one of the other kinds.
bool begins_as_picture(std::span<const std::uint8_t> file);

/// Errors: data (no pixels); TooLargePicture (more than `max_picture_pixels` or `max_picture_side`).
void check_size(std::int64_t height, std::int64_t width);

/// Errors: failed (not 1 or 3 channels, or a wrong number of pixels).
void check_pixels(const Picture& picture);

/// Blends `count` pixels of red, green, blue and alpha with the background: alpha c + (1 - alpha) background, rounded.
/// libpng's own compositing would apply the gamma of the file, unlike Pillow's.
void composite(std::uint8_t* pixels, std::int64_t count, const Colour& background);

/// Sets the position of `part` and resizes its pixels to `height` x `width`.
void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction);

// Orientation: how the stored pixels of a picture are rotated and mirrored to be shown (tag 0x0112 of EXIF and TIFF).

/// The orientation that the EXIF block of a JPEG file states, 1 to 8; 1 if the block is absent or malformed. Reads only
/// within `file`.
int exif_orientation(std::span<const std::uint8_t> file);

/// The orientation in a block that starts with a TIFF header, as in EXIF; 1 if it states none or is malformed.
int tiff_orientation(std::span<const std::uint8_t> block);

/// True for 5 to 8: stored rows are shown as columns.
bool swaps_sides(int orientation);

/// The rectangle of the stored picture that is shown as `shown`, a rectangle of the picture described by `info`.
PictureBox stored_box(const PictureBox& shown, const PictureInfo& info);

/// Rotates and mirrors the pixels of `part`, a part of the stored picture, and changes its position to that in the
/// picture as it is shown. The height and width are those of the whole stored picture, before its reduction.
void orient(DecodedPart& part, int orientation, std::int64_t stored_height, std::int64_t stored_width);

}  // namespace carillon
