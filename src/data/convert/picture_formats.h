// Decoders of TIFF, WebP and GIF, for as_jpeg_or_png.
//
// `formats/` calls libtiff, libwebp and giflib. A build without these libraries has `no_formats/`, which refuses.
#pragma once

#include <span>
#include <string>

#include "carillon/images/decode.h"

namespace carillon {

/// Thrown for a file that is not read although it may be sound. The text says why.
struct UnsupportedPicture {
  std::string reason;
};

/// Each decodes the first image of a file to `whole`, composited on `background`, and returns the orientation of these
/// pixels (PictureInfo). Errors: data, without the name of the file; UnsupportedPicture.
int read_tiff(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_webp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_gif(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

}  // namespace carillon
