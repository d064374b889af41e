// Picture files: reads a file as JPEG or PNG, and converts other formats to PNG. An error states the reason and, if
// possible, a command that repairs the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"

namespace carillon {

/// Why a picture cannot be used.
enum class Unusable {
  damaged,
  unsupported,  ///< this build does not read the format
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

/// Returns the numbers of skipped pictures by reason: "2 damaged pictures, 1 picture that is too large".
std::string skipped_text(const std::map<Unusable, std::size_t>& skipped);

/// The error message for an unsupported picture contains a command that converts the picture. Returns the path of the
/// PNG file that this command writes.
std::filesystem::path converted_copy(const std::filesystem::path& path);

/// Reads the picture at `path` and passes it to `use` as a JPEG or PNG file (as_jpeg_or_png). Errors: UnusablePicture,
/// which names the file and has the code no_input, data or io. If `use` throws an error with the code data, this error
/// also becomes an UnusablePicture.
void read_picture(const std::filesystem::path& path, const Colour& background,
                  const std::function<void(std::string file)>& use);

/// Does the same as read_picture, with one exception: if this build does not read the format of the file and
/// converted_copy(path) exists, reads this copy.
void read_picture_or_copy(const std::filesystem::path& path, const Colour& background,
                          const std::function<void(std::string file)>& use);

/// Returns `file` without change if it is a JPEG file, a PNG file or a file of an unknown kind. Files of other formats
/// become a PNG file. PNG and TIFF files with 16-bit values also become a PNG file if they have no transparency and
/// their values use at most 14 bits. Cameras and scanners write such files for 12-bit pictures. Uses the first image of
/// a TIFF, WebP or GIF file, rotated and mirrored as it is shown, and composited on `background`. `path` is used only
/// for the command in an error message. Errors: data (the file is damaged, or has too many pixels). UnusablePicture
/// (this build does not read the format; the message contains a command that converts the file). The messages do not
/// contain the name of the file.
std::string as_jpeg_or_png(std::string file, const std::filesystem::path& path, const Colour& background);

// Decoders for as_jpeg_or_png.
//
// The sources in `formats/` call libtiff, libwebp and giflib. A build without these libraries uses `no_formats/`, which
// throws UnsupportedPicture.

/// The error for a file that this build does not read, although the file may be undamaged. The text contains the
/// reason.
struct UnsupportedPicture {
  std::string reason;
};

/// Each of these functions decodes the first image of a file to `whole`, composited on `background`, and returns the
/// orientation of the decoded pixels (PictureInfo). Errors: data (the message does not contain the name of the file);
/// UnsupportedPicture.
int read_tiff(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_webp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_gif(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_bmp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);
int read_pnm(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole);

/// Writes 16-bit samples as 8-bit pixels to `whole`. A pixel has 1 sample (grey) or 3 samples (RGB). The brightest
/// sample determines how many bits the samples use: an even number from 8 to 16. The upper 8 of these bits are kept.
void place_deep_pixels(std::span<const std::uint16_t> samples, std::int64_t height, std::int64_t width,
                       DecodedPart& whole);

}  // namespace carillon
