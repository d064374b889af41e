#include "src/train/evaluation/image_views.h"

namespace carillon {
namespace {

/// The index within `extent` that index `at` shows; `at` is from -1 to `extent`.
std::int64_t reflected(std::int64_t at, std::int64_t extent) {
  if (at < 0) return 1;
  return at < extent ? at : extent - 2;
}

}  // namespace

void write_view(const ImageView& view, const ImageShape& shape, const std::uint8_t* image, std::uint8_t* out) {
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int64_t y = 0; y < shape.height; ++y) {
      const std::int64_t line = channel * shape.height + reflected(y + view.shift, shape.height);
      const std::uint8_t* const row = image + line * shape.width;
      for (std::int64_t x = 0; x < shape.width; ++x) {
        const std::int64_t column = view.mirrored ? shape.width - 1 - x : x;
        *out++ = row[reflected(column + view.shift, shape.width)];
      }
    }
  }
}

}  // namespace carillon
