#include "src/step/forward/image_views.h"

namespace carillon {

void write_view(const ImageView& view, const ImageShape& shape, const std::uint8_t* image, std::uint8_t* out) {
  const ViewMap map(view, shape);
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int32_t y = 0; y < map.height; ++y) {
      const std::uint8_t* const row = image + (channel * map.height + map.row(y)) * map.width;
      for (std::int32_t x = 0; x < map.width; ++x) *out++ = row[map.column(x)];
    }
  }
}

}  // namespace carillon
