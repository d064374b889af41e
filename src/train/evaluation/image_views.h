// Image views: one image seen in several ways, over which an evaluation averages its logits (test-time augmentation).
//
//   logits = 1/4 (z(x) + z(mirror x)) + 1/8 (z(up) + z(mirror up)) + 1/8 (z(down) + z(mirror down))
//
// up, down: the image moved by a row and a column towards the last or the first ones; at the edges that this opens it
// is reflected, the outermost row and column not repeated. Source: level 2 of Jordan, "94% on CIFAR-10 in 3.29 seconds
// on a single GPU", 2024.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "carillon/core/image_shape.h"

namespace carillon {

struct ImageView {
  std::int64_t shift = 0;  ///< pixel (y, x) is the image's (y + shift, x + shift): -1, 0 or 1
  bool mirrored = false;   ///< left-right, after that
  float weight = 1.0f;     ///< of its logits
};

inline constexpr std::array augmented_views{ImageView{0, false, 0.25f},   ImageView{0, true, 0.25f},
                                            ImageView{-1, false, 0.125f}, ImageView{-1, true, 0.125f},
                                            ImageView{1, false, 0.125f},  ImageView{1, true, 0.125f}};

/// Writes that view of an image; both [channels, height, width], of at least 2 x 2 pixels.
void write_view(const ImageView& view, const ImageShape& shape, const std::uint8_t* image, std::uint8_t* out);

}  // namespace carillon
