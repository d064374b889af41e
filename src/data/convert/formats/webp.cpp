// Decodes the first frame of WebP files, through libwebp. Format:
// https://developers.google.com/speed/webp/docs/riff_container.
#include <webp/decode.h>

#include <algorithm>
#include <string_view>

#include "carillon/core/error.h"
#include "src/data/convert/picture_file.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

std::size_t little_endian(std::span<const std::uint8_t> file, std::size_t at, std::size_t bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes; i > 0; --i) value = value << 8 | file[at + i - 1];
  return value;
}

std::string_view text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the content of the first chunk of this type, or an empty span if there is none.
std::span<const std::uint8_t> chunk(std::span<const std::uint8_t> file, std::string_view type) {
  constexpr std::size_t header_bytes = 8;  // type and size of a chunk
  for (std::size_t at = 12; at + header_bytes <= file.size();) {
    const std::size_t bytes = little_endian(file, at + 4, 4), begin = at + header_bytes;
    if (bytes > file.size() - begin) return {};
    if (text(file.subspan(at, 4)) == type) return file.subspan(begin, bytes);
    at = begin + bytes + bytes % 2;
  }
  return {};
}

/// Returns the orientation in the chunk EXIF, or 1 if there is no such chunk.
int orientation_of(std::span<const std::uint8_t> file) {
  constexpr std::string_view prefix("Exif\0\0", 6);  // some programs write this prefix, as in JPEG
  const std::span<const std::uint8_t> block = chunk(file, "EXIF");
  return tiff_orientation(text(block).starts_with(prefix) ? block.subspan(prefix.size()) : block);
}

WebPBitstreamFeatures features_of(std::span<const std::uint8_t> data) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data.data(), data.size(), &features) != VP8_STATUS_OK) {
    fail(ExitCode::data, "is damaged: libwebp cannot read its header");
  }
  return features;
}

/// A picture on the canvas of a file.
struct Frame {
  std::span<const std::uint8_t> data;  ///< the bytes that libwebp decodes
  std::int64_t row = 0, column = 0;    ///< position on the canvas
};

/// Returns the first frame of an animation: a chunk ANMF, which has a header of 16 bytes before the data.
Frame first_frame(std::span<const std::uint8_t> file) {
  constexpr std::size_t header_bytes = 16;
  const std::span<const std::uint8_t> frame = chunk(file, "ANMF");
  if (frame.size() <= header_bytes) fail(ExitCode::data, "is damaged: it has no frame");
  return {frame.subspan(header_bytes), 2 * static_cast<std::int64_t>(little_endian(frame, 3, 3)),
          2 * static_cast<std::int64_t>(little_endian(frame, 0, 3))};
}

}  // namespace

int read_webp(std::span<const std::uint8_t> file, const Colour& background, DecodedPart& whole) {
  const WebPBitstreamFeatures canvas = features_of(file);
  check_size(canvas.height, canvas.width);
  place_part(whole, {0, 0, canvas.height, canvas.width}, 1);
  const std::size_t row_bytes = static_cast<std::size_t>(canvas.width) * 4;
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(canvas.height);
  const Frame frame = canvas.has_animation != 0 ? first_frame(file) : Frame{.data = file};
  std::size_t at = 0;
  if (canvas.has_animation != 0) {
    const WebPBitstreamFeatures size = features_of(frame.data);
    if (frame.row + size.height > canvas.height || frame.column + size.width > canvas.width) {
      fail(ExitCode::data, "is damaged: a frame exceeds the canvas");
    }
    std::fill_n(whole.pixels.begin(), bytes, std::uint8_t{0});  // pixels around the frame are transparent
    at = static_cast<std::size_t>(frame.row) * row_bytes + static_cast<std::size_t>(frame.column) * 4;
  }
  if (WebPDecodeRGBAInto(frame.data.data(), frame.data.size(), whole.pixels.data() + at, bytes - at,
                         static_cast<int>(row_bytes)) == nullptr) {
    fail(ExitCode::data, "is damaged: libwebp cannot decode it");
  }
  composite(whole.pixels.data(), whole.height * whole.width, background);
  return orientation_of(file);
}

}  // namespace carillon
