// Picture: pixels in memory, and the same as a file of a format that others open.
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

/// A PNG file (ISO/IEC 15948). Errors: failed (a picture that is neither grey nor RGB, or whose pixels are not as many
/// as it says).
std::string encode_png(const Picture& picture);

/// A baseline JPEG file (ITU-T T.81) of 4:2:0 colours. `quality`: 1 to 100, as libjpeg's. Errors: as encode_png.
std::string encode_jpeg(const Picture& picture, int quality);

}  // namespace carillon
