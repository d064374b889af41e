// In a build without libtiff, libwebp and giflib, these functions replace the decoders of TIFF, WebP and GIF files.
// They throw UnsupportedPicture.
#include "src/data/convert/picture_file.h"

namespace carillon {
namespace {

[[noreturn]] int refuse() { throw UnsupportedPicture{"this build has no library for it"}; }

}  // namespace

int read_tiff(std::span<const std::uint8_t> /*file*/, const Colour& /*background*/, DecodedPart& /*whole*/) {
  refuse();
}
int read_webp(std::span<const std::uint8_t> /*file*/, const Colour& /*background*/, DecodedPart& /*whole*/) {
  refuse();
}
int read_gif(std::span<const std::uint8_t> /*file*/, const Colour& /*background*/, DecodedPart& /*whole*/) { refuse(); }

}  // namespace carillon
