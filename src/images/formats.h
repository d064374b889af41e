// The decoder of each image format. `info` has been checked.
#pragma once

#include "carillon/images/decode.h"
#include "src/images/picture.h"

namespace carillon {

PictureInfo jpeg_info(std::span<const std::uint8_t> file);
void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

PictureInfo png_info(std::span<const std::uint8_t> file);
void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// Errors: failed (not 1 or 3 channels, or a wrong number of pixels).
void check_pixels(const Picture& picture);

/// Sets the position of `part` and resizes its pixels to `height` x `width`.
void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction);

}  // namespace carillon
