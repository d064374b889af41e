// The decoder of each image format, and what they share.
#pragma once

#include "carillon/images/decode.h"
#include "src/images/picture.h"

namespace carillon {

PictureInfo jpeg_info(std::span<const std::uint8_t> file);
void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

PictureInfo png_info(std::span<const std::uint8_t> file);
void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// The kind of a picture file that is neither JPEG nor PNG, by its first bytes: TIFF, WebP, BMP, GIF, HEIF, AVIF, JPEG
/// XL or JPEG 2000. Empty if the kind is unknown.
std::string_view other_picture_kind(std::span<const std::uint8_t> file);

/// Errors: data (no pixels, or more than `max_picture_pixels` or `max_picture_side`).
void check_size(std::int64_t height, std::int64_t width);

/// Errors: failed (not 1 or 3 channels, or a wrong number of pixels).
void check_pixels(const Picture& picture);

/// Blends `count` pixels of red, green, blue and alpha with the background: alpha c + (1 - alpha) background, rounded.
/// libpng's own compositing would apply the gamma of the file, unlike Pillow's.
void composite(std::uint8_t* pixels, std::int64_t count, const Colour& background);

/// Sets the position of `part` and resizes its pixels to `height` x `width`.
void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction);

}  // namespace carillon
