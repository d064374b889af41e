#include "src/images/thumbnail.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/images/resize.h"

namespace carillon {
namespace {

/// Each pixel as a square of `factor` x `factor` pixels.
Picture enlarged(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t factor) {
  Picture picture{.height = shape.height * factor, .width = shape.width * factor, .channels = 3, .pixels = {}};
  const std::int64_t plane = shape.height * shape.width;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const std::int64_t pixel = y / factor * shape.width + x / factor;
      for (std::int64_t c = 0; c < 3; ++c) {
        picture.pixels.push_back(image[static_cast<std::size_t>((shape.channels == 3 ? c * plane : 0) + pixel)]);
      }
    }
  }
  return picture;
}

Picture reduced(const Picture& picture, std::int64_t height, std::int64_t width) {
  DecodedPart part{.height = picture.height,
                   .width = picture.width,
                   .picture_height = picture.height,
                   .picture_width = picture.width};
  for (std::size_t i = 0; i < picture.pixels.size(); i += 3) {
    part.pixels.insert(part.pixels.end(), {picture.pixels[i], picture.pixels[i + 1], picture.pixels[i + 2], 0});
  }
  const auto axis = [](std::int64_t length, std::int64_t resized) {
    return make_axis({.length = static_cast<double>(length), .limit = length, .resized = resized, .count = resized},
                     Resampling::antialiased);
  };
  Picture small{.height = height, .width = width, .channels = 3, .pixels = {}};
  small.pixels.resize(static_cast<std::size_t>(height * width * 3));
  ViewMemory memory;
  resize(part, axis(picture.height, height), axis(picture.width, width), memory,
         {.plane = 1, .row = width * 3, .pixel = 3}, small.pixels);
  return small;
}

}  // namespace

Picture make_thumbnail(const ImageShape& shape, std::span<const std::uint8_t> image, std::int64_t side) {
  check(image.size() == shape.bytes() && !image.empty() && side > 0, "an image has another size");
  const std::int64_t longest = std::max(shape.height, shape.width);
  Picture picture = enlarged(shape, image, std::max<std::int64_t>(1, side / longest));
  if (longest <= side) return picture;
  const auto shrunk = [&](std::int64_t extent) { return std::max<std::int64_t>(1, extent * side / longest); };
  return reduced(picture, shrunk(shape.height), shrunk(shape.width));
}

}  // namespace carillon
