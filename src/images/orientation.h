// Orientation: how the stored pixels of a picture are rotated and mirrored to be shown (tag 0x0112 of EXIF and TIFF).
#pragma once

#include <cstdint>
#include <span>

#include "carillon/images/decode.h"

namespace carillon {

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
