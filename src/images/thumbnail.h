// Thumbnail: an image of a network's input as a small RGB picture.
#pragma once

#include <cstdint>
#include <span>

#include "carillon/core/image_shape.h"
#include "src/images/picture.h"

namespace carillon {

/// `image`: planes [channels][height][width]; 3 channels are red, green and blue, of another number the first is grey.
/// An image that is larger than `side` is reduced until its longer side has `side` pixels, with antialiasing. A smaller
/// one is enlarged by the largest whole factor that fits, so that its pixels stay squares. Requires `image` to have the
/// size of `shape`.
Picture make_thumbnail(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t side);

}  // namespace carillon
