#include "src/images/sheet.h"

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

}  // namespace
}  // namespace carillon
