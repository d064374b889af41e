#include "src/step/forward/image_views.h"

#include <gtest/gtest.h>

#include <vector>

namespace carillon::testing {
namespace {

constexpr ImageShape shape{.height = 2, .width = 3, .channels = 2};
const std::vector<std::uint8_t> image{11, 12, 13, 21, 22, 23, 61, 62, 63, 71, 72, 73};

std::vector<std::uint8_t> seen(const ImageView& view) {
  std::vector<std::uint8_t> out(shape.bytes());
  write_view(view, shape, image.data(), out.data());
  return out;
}

TEST(ImageViews, AShiftReflectsWhatItOpensWithoutTheEdge) {
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(seen({.shift = 0}), image);
  EXPECT_EQ(seen({.shift = -1}), (Bytes{22, 21, 22, 12, 11, 12, 72, 71, 72, 62, 61, 62}));
  EXPECT_EQ(seen({.shift = 1}), (Bytes{22, 23, 22, 12, 13, 12, 72, 73, 72, 62, 63, 62}));
}

TEST(ImageViews, ASingleRowReflectsToItself) {
  constexpr ImageShape row{.height = 1, .width = 3, .channels = 1};
  for (const std::int64_t shift : {-1, 1}) {
    std::vector<std::uint8_t> out(3);
    write_view({.shift = shift}, row, image.data(), out.data());
    EXPECT_EQ(out[1], shift < 0 ? 11 : 13);
  }
}

TEST(ImageViews, MirroringIsOfTheShiftedImage) {
  for (const std::int64_t shift : {-1, 0, 1}) {
    const std::vector<std::uint8_t> plain = seen({.shift = shift}), mirrored = seen({.shift = shift, .mirrored = true});
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t x = 0; x < 3; ++x) EXPECT_EQ(mirrored[row * 3 + x], plain[row * 3 + 2 - x]) << shift;
    }
  }
}

TEST(ImageViews, TheirWeightsAreOneTogether) {
  float sum = 0.0f;
  for (const ImageView& view : augmented_views) sum += view.weight;
  EXPECT_EQ(sum, 1.0f);
}

}  // namespace
}  // namespace carillon::testing
