// WebP, not animated, through libwebp.
#include <webp/decode.h>

#include <string_view>

#include "carillon/core/error.h"
#include "src/data/convert/picture_file.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

/// The orientation in the chunk EXIF; 1 if there is none.
int orientation_of(std::span<const std::uint8_t> file) {
  constexpr std::size_t header_bytes = 8;  // type and size of a chunk
  const auto text = [&](std::size_t at, std::size_t count) {
    return std::string_view(reinterpret_cast<const char*>(file.data()) + at, count);
  };
  for (std::size_t at = 12; at + header_bytes <= file.size();) {
    std::size_t bytes = 0;
    for (std::size_t i = 4; i > 0; --i) bytes = bytes << 8 | file[at + 3 + i];
    const std::size_t begin = at + header_bytes;
    if (bytes > file.size() - begin) return 1;
    if (text(at, 4) == "EXIF") {
      constexpr std::string_view prefix("Exif\0\0", 6);  // some programs write it, as in JPEG
      const std::span<const std::uint8_t> block = file.subspan(begin, bytes);
      return tiff_orientation(text(begin, bytes).starts_with(prefix) ? block.subspan(prefix.size()) : block);
    }
    at = begin + bytes + bytes % 2;
  }
  return 1;
}

}  // namespace

int read_webp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) {
    fail(ExitCode::data, "is damaged: libwebp cannot read its header");
  }
  check_size(features.height, features.width);
  if (features.has_animation != 0) throw UnsupportedPicture{"animations are not supported"};
  place_part(whole, {0, 0, features.height, features.width}, 1);
  const std::size_t row_bytes = static_cast<std::size_t>(features.width) * 4;
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(features.height);
  if (WebPDecodeRGBAInto(file.data(), file.size(), whole.pixels.data(), bytes, static_cast<int>(row_bytes)) ==
      nullptr) {
    fail(ExitCode::data, "is damaged: libwebp cannot decode it");
  }
  composite(whole.pixels.data(), whole.height * whole.width, background);
  return orientation_of(file);
}

}  // namespace carillon
