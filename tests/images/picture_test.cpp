#include "src/images/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace carillon {
namespace {

SheetTile tile(const std::string& text) {
  return {.height = 2, .width = 2, .pixels = std::vector<std::uint8_t>(12, 9), .text = text};
}

/// Rows of the sheet with white pixels of a text, as 0 and 1.
std::string rows_with_text(const Picture& sheet) {
  std::string rows;
  for (std::int64_t y = 0; y < sheet.height; ++y) {
    const auto row = sheet.pixels.begin() + y * sheet.width * 3;
    rows += std::count(row, row + sheet.width * 3, 255) > 0 ? '1' : '0';
  }
  return rows;
}

TEST(Sheet, HasRoomForTheLinesOfItsLongestText) {
  const Picture one = make_sheet({tile("8")}), three = make_sheet({tile("8\n8\n8")});
  EXPECT_EQ(one.width, three.width);
  EXPECT_EQ(three.height, one.height + 2 * 13);  // of 5 pixels, doubled, and a gap
  const std::string line(10, '1'), gap(3, '0');
  EXPECT_NE(rows_with_text(one).find("0" + line + "0"), std::string::npos);
  EXPECT_NE(rows_with_text(three).find("0" + line + gap + line + gap + line + "0"), std::string::npos);
}

TEST(Sheet, TruncatesEachLine) {
  const Picture short_lines = make_sheet({tile("888888888888\n8")});
  EXPECT_EQ(make_sheet({tile("888888888888888888\n8")}).pixels, short_lines.pixels);
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
