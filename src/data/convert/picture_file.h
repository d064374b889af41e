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

}  // namespace carillon
