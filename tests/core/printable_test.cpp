#include "src/core/printable.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(Printable, LeavesTextOfAnyLanguageAsItIs) {
  for (const char* text : {"", "a b\"'", "größe-日本/\xF0\x9F\x94\x94", "\xC2\xA0"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatMovesACursorOrEndsALine) {
  EXPECT_EQ(printable("a\x1b[2J\nb\r\t\x7f"), "a\\x1b[2J\\x0ab\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J"),
            "\\xc2\\x9b2J");  // CSI as one C1 character
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("t-\xe9"), "t-\\xe9");
  EXPECT_EQ(printable("\xC0\x8A\xE0\x80\x8A"), "\\xc0\\x8a\\xe0\\x80\\x8a");   // overlong line ends
  EXPECT_EQ(printable("\xED\xA0\x80\xF4\x90\x80\x80").substr(0, 4), "\\xed");  // a surrogate, beyond the last plane
  EXPECT_EQ(printable("\xF4\x90\x80\x80").substr(0, 4), "\\xf4");
  EXPECT_EQ(printable("\xE6\x97"), "\\xe6\\x97");  // cut
}

TEST(Printable, KeepsBothEndsOfALongText) {
  EXPECT_EQ(printable("abc" + std::string(10'000'000, 'x') + "xyz", 6), "abcx...[10000000 bytes]...yz");
  EXPECT_EQ(printable(std::string(6, 'x'), 6), "xxxxxx");
  EXPECT_LT(printable(std::string(10'000'000, '\n')).size(), 5000u);
}

}  // namespace
}  // namespace carillon
