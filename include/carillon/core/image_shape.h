// ImageShape: height, width and channels of the images of a data set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carillon {

struct ImageShape {
  std::int64_t height = 0, width = 0, channels = 0;

  /// Bytes of one uint8 image.
  std::size_t bytes() const { return static_cast<std::size_t>(height * width * channels); }
  bool operator==(const ImageShape&) const = default;
};

}  // namespace carillon
