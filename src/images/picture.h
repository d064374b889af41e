// Picture: pixels in memory, and encoders to PNG and JPEG.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace carillon {

/// An image [height, width, channels], 1 channel (grey) or 3 (RGB).
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// Encodes a PNG file (ISO/IEC 15948). Errors: failed (not 1 or 3 channels, or a wrong number of pixels).
std::string encode_png(const Picture& picture);

/// Encodes a baseline JPEG file (ITU-T T.81) with 4:2:0 subsampling. `quality`: 1 to 100, as in libjpeg. Errors: as
/// encode_png.
std::string encode_jpeg(const Picture& picture, int quality);

}  // namespace carillon
