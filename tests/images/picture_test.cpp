#include "src/images/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace carillon {
namespace {

SheetTile tile(const std::string& text) {
  return {.height = 2, .width = 2, .pixels = std::vector<std::uint8_t>(12, 9), .text = text};
}

/// Returns the number of pixels of tile(), which is dark, that the text changes.
std::int64_t pixels_of_text(const std::string& text) {
  const Picture sheet = make_sheet({tile(text)});
  return std::ranges::count_if(sheet.pixels, [](std::uint8_t value) { return value > 64; });
}

TEST(Sheet, HasRoomForTheLinesOfItsLongestText) {
  const Picture one = make_sheet({tile("8")}), three = make_sheet({tile("8\n8\n8"), tile("8")});
  const Picture single = make_sheet({tile("8\n8\n8")});
  EXPECT_EQ(one.width, single.width);
  EXPECT_EQ(single.height, one.height + 2 * 16);
  EXPECT_EQ(pixels_of_text("8\n8\n8"), 3 * pixels_of_text("8"));
  EXPECT_GT(three.width, single.width);
}

TEST(Sheet, ReplacesTheEndOfALongLineByAnEllipsis) {
  const std::string many(40, '8'), more(50, '8');
  EXPECT_EQ(make_sheet({tile(many + "\n8")}).pixels, make_sheet({tile(more + "\n8")}).pixels);
  EXPECT_NE(make_sheet({tile("8888888888888")}).pixels, make_sheet({tile(many)}).pixels);
}

TEST(Sheet, WritesLettersOfManyLanguages) {
  EXPECT_NE(make_sheet({tile("Äpfel")}).pixels, make_sheet({tile("Apfel")}).pixels);
  EXPECT_NE(make_sheet({tile("кот")}).pixels, make_sheet({tile("кит")}).pixels);
  EXPECT_NE(make_sheet({tile("cat")}).pixels, make_sheet({tile("CAT")}).pixels);
  EXPECT_GT(pixels_of_text("\xff"), 0) << "invalid UTF-8";
}

using ::testing::Each;
using ::testing::ElementsAre;

TEST(Thumbnail, EnlargesASmallImageByAWholeFactor) {
  const Picture grey = make_thumbnail({1, 2, 1}, std::vector<std::uint8_t>{10, 200}, 5);
  EXPECT_EQ(grey.height, 2);
  EXPECT_EQ(grey.width, 4);
  EXPECT_THAT(grey.pixels, ElementsAre(10, 10, 10, 10, 10, 10, 200, 200, 200, 200, 200, 200,  //
                                       10, 10, 10, 10, 10, 10, 200, 200, 200, 200, 200, 200));
  const Picture colour = make_thumbnail({1, 2, 3}, std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}, 2);
  EXPECT_THAT(colour.pixels, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Thumbnail, ReducesALargeImageAndKeepsItsProportions) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 192 * 96; ++i) {
    for (const int channel : {50, 100, 150}) pixels.push_back(static_cast<std::uint8_t>(channel + i % 2 * 20));
  }
  const Picture small = make_thumbnail({96, 192, 3}, pixels, 96);
  EXPECT_EQ(small.height, 48);
  EXPECT_EQ(small.width, 96);
  for (std::size_t i = 0; i < small.pixels.size(); ++i) {
    ASSERT_NEAR(small.pixels[i], 60 + 50 * static_cast<int>(i % 3), 6) << i;  // the mean of neighbouring pixels
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
