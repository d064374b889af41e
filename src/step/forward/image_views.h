// Image views: mirrored and shifted copies of an image. Test-time augmentation averages the outputs over them.
//
//   output = 1/4 (z(x) + z(mirror x)) + 1/8 (z(up) + z(mirror up)) + 1/8 (z(down) + z(mirror down))
//
// z: the network's output. up, down: the image shifted diagonally, by one row and one column, in the two opposite
// directions. The opened edges are filled by reflection without repeating the outermost row and column. Source: level 2
// of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "carillon/core/host_device.h"
#include "carillon/core/sample.h"

namespace carillon {

struct ImageView {
  std::int64_t shift = 0;  ///< pixel (y, x) shows pixel (y + shift, x + shift) of the image: -1, 0 or 1
  bool mirrored = false;   ///< left-right, after the shift
  float weight = 1.0f;     ///< weight of the view's outputs in the mean; a power of two, so that products are exact
};

inline constexpr std::array augmented_views{ImageView{0, false, 0.25f},   ImageView{0, true, 0.25f},
                                            ImageView{-1, false, 0.125f}, ImageView{-1, true, 0.125f},
                                            ImageView{1, false, 0.125f},  ImageView{1, true, 0.125f}};

/// Maps each pixel of a view to the pixel of the image that it shows, on CPU and GPU.
struct ViewMap {
  std::int32_t height = 0, width = 0, shift = 0;
  bool mirrored = false;

  ViewMap(const ImageView& view, const ImageShape& shape)
      : height(static_cast<std::int32_t>(shape.height)),
        width(static_cast<std::int32_t>(shape.width)),
        shift(static_cast<std::int32_t>(view.shift)),
        mirrored(view.mirrored) {}

  /// The row of the image that row y of the view shows, and the column of the image that column x shows.
  CARILLON_HOST_DEVICE std::int32_t row(std::int32_t y) const { return reflected(y + shift, height); }
  CARILLON_HOST_DEVICE std::int32_t column(std::int32_t x) const {
    return reflected((mirrored ? width - 1 - x : x) + shift, width);
  }

 private:
  /// Reflects the index `at`, from -1 to `extent`, into the range [0, extent).
  CARILLON_HOST_DEVICE static std::int32_t reflected(std::int32_t at, std::int32_t extent) {
    if (extent == 1) return 0;
    if (at < 0) return 1;
    return at < extent ? at : extent - 2;
  }
};

/// Writes the view of an image. Both are [channels, height, width].
inline void write_view(const ImageView& view, const ImageShape& shape, const std::uint8_t* image, std::uint8_t* out) {
  const ViewMap map(view, shape);
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int32_t y = 0; y < map.height; ++y) {
      const std::uint8_t* const row = image + (channel * map.height + map.row(y)) * map.width;
      for (std::int32_t x = 0; x < map.width; ++x) *out++ = row[map.column(x)];
    }
  }
}

}  // namespace carillon
