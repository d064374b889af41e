// Image views: mirrored and shifted copies of an image. Test-time augmentation averages the outputs over them.
//
//   output = 1/4 (z(x) + z(mirror x)) + 1/8 (z(up) + z(mirror up)) + 1/8 (z(down) + z(mirror down))
//
// z: the network's output. up, down: the image shifted by one row and one column, towards the last or the first ones.
// The opened edges are filled by reflection without repeating the outermost row and column. Source: level 2 of Jordan,
// "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "carillon/core/image_shape.h"

namespace carillon {

struct ImageView {
  std::int64_t shift = 0;  ///< pixel (y, x) is the image's (y + shift, x + shift): -1, 0 or 1
  bool mirrored = false;   ///< left-right, after the shift
  float weight = 1.0f;     ///< weight of the view's outputs in the mean
};

inline constexpr std::array augmented_views{ImageView{0, false, 0.25f},   ImageView{0, true, 0.25f},
                                            ImageView{-1, false, 0.125f}, ImageView{-1, true, 0.125f},
                                            ImageView{1, false, 0.125f},  ImageView{1, true, 0.125f}};

/// Writes the view of an image. Both are [channels, height, width], at least 2 x 2 pixels.
void write_view(const ImageView& view, const ImageShape& shape, const std::uint8_t* image, std::uint8_t* out);

}  // namespace carillon
