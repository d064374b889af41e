// ImageShape: what a data set says of its images, and a network is made for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carillon {

struct ImageShape {
  std::int64_t height = 0, width = 0, channels = 0;

  /// Of one image of uint8.
  std::size_t bytes() const { return static_cast<std::size_t>(height * width * channels); }
  bool operator==(const ImageShape&) const = default;
};

}  // namespace carillon
