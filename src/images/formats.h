// The decoder of each format. `info` has been checked.
#pragma once

#include "carillon/images/decode.h"
#include "src/images/picture.h"

namespace carillon {

PictureInfo jpeg_info(std::span<const std::uint8_t> file);
void decode_jpeg(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

PictureInfo png_info(std::span<const std::uint8_t> file);
void decode_png(std::span<const std::uint8_t> file, const PartRequest& request, DecodedPart& part);

/// Errors: failed (a picture that is neither grey nor RGB, or whose pixels are not as many as it says).
void check_pixels(const Picture& picture);

/// Makes room for the pixels of `height` x `width` from there.
void place_part(DecodedPart& part, const PictureBox& box, std::int64_t reduction);

}  // namespace carillon
