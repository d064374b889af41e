// Converts picture files of formats other than JPEG and PNG to PNG. If this build cannot read the format, the error
// contains a command that converts the file.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "carillon/images/decode.h"

namespace carillon {

/// Returns a JPEG or PNG file, and files of an unknown kind, without change. The first image of a TIFF, WebP or GIF
/// file becomes a PNG file: rotated and mirrored as it is shown, and composited on `background`. `path` only
/// completes the command in an error. Errors, without the name of the file: data (damage; too many pixels; a format
/// that this build does not read, with a command that converts it).
std::string as_jpeg_or_png(std::string file, const std::filesystem::path& path, const Colour& background);

// Decoders of TIFF, WebP and GIF, for as_jpeg_or_png.
//
// The sources in `formats/` call libtiff, libwebp and giflib. A build without these libraries uses `no_formats/`, which
// throws UnsupportedPicture.

/// Thrown for a file that this build does not read although the file may be sound. The text contains the reason.
struct UnsupportedPicture {
  std::string reason;
};

/// Each decodes the first image of a file to `whole`, composited on `background`, and returns the orientation of these
/// pixels (PictureInfo). Errors: data, without the name of the file; UnsupportedPicture.
int read_tiff(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_webp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_gif(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

}  // namespace carillon
