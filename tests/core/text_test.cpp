#include "src/core/text.h"

#include <gtest/gtest.h>

#include <limits>

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
            "\\xc2\\x9b2J");  // CSI as a single C1 character
}

TEST(Printable, EscapesWhatIsInvisibleOrChangesTheOrderOfALine) {
  EXPECT_EQ(printable("cat\u202egnp"), "cat\\xe2\\x80\\xaegnp");  // right-to-left override
  EXPECT_EQ(printable("a\u2028b\u2029c"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9c");
  for (const char* const hidden :
       {"\u00ad", "\u200b", "\u200f", "\u202a", "\u2060", "\u2066", "\ufeff", "\u3164", "\U000e0041", "\U0001d173"}) {
    EXPECT_EQ(printable(hidden).front(), '\\') << hidden;
    EXPECT_FALSE(is_printable(hidden));
    EXPECT_EQ(printable(hidden).size(), 4 * std::string(hidden).size());
  }
  for (const char* const shown : {"\u00ac", "\u2010", "\u2027", "\u202f", "\u2070", "\ufe10", "\U0001f514"}) {
    EXPECT_EQ(printable(shown), shown);
    EXPECT_TRUE(is_printable(shown));
  }
}

TEST(Printable, ALineIsUtf8WithoutControlCharacters) {
  for (const char* const line : {"", "größe", "می\u200cخواهم", "a\u202e"}) EXPECT_TRUE(is_line(line)) << line;
  for (const char* const other : {"a\n", "\u0085", "\x7f", "t-\xe9"}) EXPECT_FALSE(is_line(other)) << other;
}

TEST(Printable, JsonStaysEqualJson) {
  EXPECT_EQ(printable_json("{\n  \"größe\": \"a\u202e\U000e0041\"\n}"),
            "{\n  \"größe\": \"a\\u202e\\udb40\\udc41\"\n}");
}

TEST(ValidUtf8, EscapesOnlyWhatIsNotUtf8) {
  EXPECT_EQ(valid_utf8("caf\xe9,größe\n\u202e\xe2\x80"), "caf\\xe9,größe\n\u202e\\xe2\\x80");
}

TEST(NumberOf, IsTheWholeTextInTheRangeOfDouble) {
  EXPECT_EQ(number_of("-2.5e1"), -25.0);
  EXPECT_EQ(number_of("1e-400"), 0.0);
  EXPECT_EQ(number_of("-1e400"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(number_of("4e-320"), 4e-320);
  for (const char* const bad : {"", " 1", "1e-400x", "x"}) EXPECT_FALSE(number_of(bad)) << bad;
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("t-\xe9"), "t-\\xe9");
  EXPECT_EQ(printable("\xC0\x8A\xE0\x80\x8A"), "\\xc0\\x8a\\xe0\\x80\\x8a");  // line ends with overlong UTF-8 encodings
  // The first three bytes encode a surrogate, and the next four a code point above U+10FFFF. Neither is valid in UTF-8.
  EXPECT_EQ(printable("\xED\xA0\x80\xF4\x90\x80\x80").substr(0, 4), "\\xed");
  EXPECT_EQ(printable("\xF4\x90\x80\x80").substr(0, 4), "\\xf4");
  EXPECT_EQ(printable("\xE6\x97"), "\\xe6\\x97");  // a character without its last bytes
}

TEST(Printable, KeepsBothEndsOfALongText) {
  EXPECT_EQ(printable("abc" + std::string(10'000'000, 'x') + "xyz", 6), "abcx...[10000000 bytes]...yz");
  EXPECT_EQ(printable(std::string(6, 'x'), 6), "xxxxxx");
  EXPECT_LT(printable(std::string(10'000'000, '\n')).size(), 5000u);
}

TEST(Printable, OmitsNoPartOfACharacter) {
  EXPECT_EQ(printable("größe/größe/größe", 9), "größ...[14 bytes]...ße");
  EXPECT_EQ(printable("собака/собака", 9), "соб...[17 bytes]...а");
  EXPECT_EQ(printable("猫猫猫猫", 7), "猫...[9 bytes]...");
  EXPECT_EQ(printable("\U0001f514\U0001f514\U0001f514", 6), "\U0001f514...[8 bytes]...");
  EXPECT_EQ(printable("\xb0\xb0\xb0\xb0\xb0\xb0", 3), "\\xb0\\xb0...[3 bytes]...\\xb0") << "not UTF-8";
}

TEST(SizeText, HasTheUnitThatSuitsTheNumber) {
  EXPECT_EQ(size_text(4), "4 bytes");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1590040), "1.59 MB");
  EXPECT_EQ(size_text(38e9), "38.0 GB");
  EXPECT_EQ(size_text(5e15), "5000.0 TB");
}

TEST(ShellWord, IsQuotedOnlyIfAShellWouldChangeIt) {
  EXPECT_EQ(shell_word("runs/a_b-1.cfg"), "runs/a_b-1.cfg");
  EXPECT_EQ(shell_word("data/train-*"), "'data/train-*'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_quoted("plain"), "'plain'");
}

TEST(ShellWord, HasNoCharacterThatATerminalWouldNotShow) {
  EXPECT_EQ(shell_word("it's\u202e\\\n"), "$'it\\'s\\xe2\\x80\\xae\\\\\\x0a'");
}

}  // namespace

}  // namespace carillon
