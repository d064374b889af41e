// Picture files: reads a file as JPEG or PNG, and converts other formats to PNG. An error states the reason, and the
// command that mends the file if there is one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"

namespace carillon {

/// Why a picture cannot be used.
enum class Unusable {
  damaged,
  unsupported,  ///< a format that this build does not read
  too_large,    ///< too many pixels or bytes
  not_opened,   ///< the file is missing, or the system refuses to read it
};

class UnusablePicture : public Error {
 public:
  UnusablePicture(ExitCode code, Unusable reason, const std::string& what) : Error(code, what), reason_(reason) {}
  Unusable reason() const { return reason_; }

 private:
  Unusable reason_;
};

/// The PNG file that the command in the error of an unsupported picture writes.
std::filesystem::path converted_copy(const std::filesystem::path& path);

/// Reads the picture at `path` and calls `use` with it as a JPEG or PNG file (as_jpeg_or_png). Errors: UnusablePicture,
/// which names the file, also for errors `data` of `use`; no_input, data, io as its code.
void read_picture(const std::filesystem::path& path, const Colour& background,
                  const std::function<void(std::string file)>& use);

/// As read_picture. If this build does not read the format of the file, but converted_copy exists, reads the copy.
void read_picture_or_copy(const std::filesystem::path& path, const Colour& background,
                          const std::function<void(std::string file)>& use);

/// Returns a JPEG or PNG file, and files of an unknown kind, without change. Two kinds of files become a PNG file:
/// files of other formats, and PNG and TIFF files without transparency whose 16-bit values use 14 bits or fewer, such
/// as 12-bit pictures of cameras and scanners. The first image of a TIFF, WebP or GIF file is used: rotated and
/// mirrored as it is shown, and composited on `background`. `path` only completes the command in an error. Errors,
/// without the name of the file: data (damage; too many pixels; UnusablePicture for a format that this build does not
/// read, with a command that converts it).
std::string as_jpeg_or_png(std::string file, const std::filesystem::path& path, const Colour& background);

// Decoders for as_jpeg_or_png.
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
int read_bmp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_pnm(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

/// Writes 16-bit samples, 1 (grey) or 3 (RGB) for a pixel, as 8-bit pixels to `whole`. The brightest sample determines
/// how many bits the samples use: an even number from 8 to 16. The upper 8 of these bits are kept.
void place_deep_pixels(std::span<const std::uint16_t> samples, std::int64_t height, std::int64_t width,
                       DecodedPart& whole);

}  // namespace carillon
