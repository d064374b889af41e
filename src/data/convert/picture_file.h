// Picture files of other formats than JPEG and PNG: converts them to PNG, or names the command that does.
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
// `formats/` calls libtiff, libwebp and giflib. A build without these libraries has `no_formats/`, which refuses.

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
