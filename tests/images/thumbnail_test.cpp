#include "src/images/thumbnail.h"

#include <gmock/gmock.h>

namespace carillon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(Thumbnail, EnlargesASmallImageByAWholeFactor) {
  const Picture grey = make_thumbnail({1, 2, 1}, std::vector<std::uint8_t>{10, 200}, 5);
  EXPECT_EQ(grey.height, 2);
  EXPECT_EQ(grey.width, 4);
  EXPECT_THAT(grey.pixels, ElementsAre(10, 10, 10, 10, 10, 10, 200, 200, 200, 200, 200, 200,  //
                                       10, 10, 10, 10, 10, 10, 200, 200, 200, 200, 200, 200));
  const Picture colour = make_thumbnail({1, 2, 3}, std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}, 2);
  EXPECT_THAT(colour.pixels, ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(Thumbnail, ReducesALargeImageAndKeepsItsProportions) {
  std::vector<std::uint8_t> planes;
  for (const int channel : {50, 100, 150}) {
    for (int i = 0; i < 192 * 96; ++i) planes.push_back(static_cast<std::uint8_t>(channel + i % 2 * 20));
  }
  const Picture small = make_thumbnail({96, 192, 3}, planes, 96);
  EXPECT_EQ(small.height, 48);
  EXPECT_EQ(small.width, 96);
  for (std::size_t i = 0; i < small.pixels.size(); ++i) {
    ASSERT_NEAR(small.pixels[i], 60 + 50 * static_cast<int>(i % 3), 6) << i;  // the mean of neighbours
  }
}

TEST(Thumbnail, KeepsAtLeastOnePixel) {
  const Picture thin = make_thumbnail({1, 500, 1}, std::vector<std::uint8_t>(500, 7), 100);
  EXPECT_EQ(thin.height, 1);
  EXPECT_EQ(thin.width, 100);
  EXPECT_THAT(thin.pixels, Each(7));
}

}  // namespace
}  // namespace carillon
