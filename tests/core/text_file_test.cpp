#include "src/core/text_file.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

class TextFileTest : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& bytes) const {
    write_text(path_, bytes);
    return path_;
  }
  std::string read(const std::string& bytes) const { return read_text_file(put(bytes), "the list", 1000); }
  void expect_refused(const std::string& bytes, const std::string& cause) const {
    const Error error = error_of([&] { read(bytes); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(error.what(), "the list: " + cause);
  }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "list.txt";
};

TEST_F(TextFileTest, OfAnySystemHasTheSameLines) {
  for (const std::string& text : {"a b\nc\n"s, "a b\r\nc\r\n"s, "a b\rc\r"s, "\xEF\xBB\xBF"s + "a b\r\nc\n"s}) {
    EXPECT_EQ(read(text), "a b\nc\n") << text;
  }
  EXPECT_EQ(read("a\r\r\n\rb"), "a\n\n\nb");
  EXPECT_EQ(read(""), "");
}

TEST_F(TextFileTest, OfUtf16BecomesUtf8) {
  const std::string text = "aé€😀\n";
  EXPECT_EQ(read("\xFF\xFE"
                 "a\0\xE9\0\xAC\x20\x3D\xD8\x00\xDE\r\0\n\0"s),
            text);
  EXPECT_EQ(read("\xFE\xFF"
                 "\0a\0\xE9\x20\xAC\xD8\x3D\xDE\x00\0\n"s),
            text);
  EXPECT_EQ(read("a\0,\0b\0\r\0"s), "a,b\n") << "without a byte order mark";
  EXPECT_EQ(read("\0a\0,\0b"s), "a,b");
  expect_refused(
      "\xFF\xFE"
      "a\0b"s,
      "is damaged UTF-16: save it as UTF-8");
  expect_refused(
      "\xFF\xFE\x3D\xD8"
      "a\0"s,
      "is damaged UTF-16: save it as UTF-8");
  expect_refused("\xFF\xFE\x00\xDE"s, "is damaged UTF-16: save it as UTF-8");
}

TEST_F(TextFileTest, KeepsBytesOfOtherEncodings) { EXPECT_EQ(read("caf\xE9.jpg\n"), "caf\xE9.jpg\n"); }

TEST_F(TextFileTest, RefusesNul) {
  expect_refused("a.jpg x\rb.jpg\0.png y\n"s, "line 2 has a NUL character: save the file as UTF-8 text");
  expect_refused("\xFF\xFE\0\0a\0\0\0"s, "line 1 has a NUL character: save the file as UTF-8 text");
}

TEST_F(TextFileTest, IsWhatTablesRead) {
  const CsvTable table = read_csv(put("p\0,\0c\0\r\0"
                                      "1\0,\0\xE9\0\r\0"s),
                                  "the table", 1000);
  EXPECT_THAT(table.header, ElementsAre("p", "c"));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].line, 2u);
  EXPECT_THAT(table.rows[0].cells, ElementsAre("1", "é"));
}

class CsvTableTest : public ::testing::Test {
 protected:
  CsvTable read(const std::string& text) const {
    const std::filesystem::path path = directory_.path() / "table.csv";
    write_text(path, text);
    return read_csv(path, "the table", 1000);
  }
  void expect_refused(const std::string& text, const std::string& cause) const {
    const Error error = error_of([&] { read(text); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(error.what(), "the table: " + cause);
  }

  TemporaryDirectory directory_;
};

TEST_F(CsvTableTest, HasAHeaderAndRowsWithTheNumbersOfTheirLines) {
  const CsvTable table = read("path,label\na.jpg,cat\n\nb.jpg,\n");
  EXPECT_THAT(table.header, ElementsAre("path", "label"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0].cells, ElementsAre("a.jpg", "cat"));
  EXPECT_EQ(table.rows[0].line, 2u);
  EXPECT_THAT(table.rows[1].cells, ElementsAre("b.jpg", ""));
  EXPECT_EQ(table.rows[1].line, 4u);
}

TEST_F(CsvTableTest, OfWindowsHasTheSameCells) {
  const CsvTable table = read("\xEF\xBB\xBFpath,label\r\na.jpg,cat\r\nb.jpg,dog");
  EXPECT_THAT(table.header, ElementsAre("path", "label"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0].cells, ElementsAre("a.jpg", "cat"));
  EXPECT_THAT(table.rows[1].cells, ElementsAre("b.jpg", "dog"));
}

TEST_F(CsvTableTest, CellsInQuotesMayHoldSeparators) {
  const CsvTable table = read("path,label\n\"a, b.jpg\",\"a \"\"big\"\"\ncat\"\nc.jpg,\"\"\n");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0].cells, ElementsAre("a, b.jpg", "a \"big\"\ncat"));
  EXPECT_THAT(table.rows[1].cells, ElementsAre("c.jpg", ""));
  EXPECT_EQ(table.rows[1].line, 4u);
}

TEST_F(CsvTableTest, AFaultIsNamedWithItsLine) {
  expect_refused("", "is empty; its first line must name the columns");
  expect_refused("path,label\na.jpg\n", "line 2 has 1 cells, and the header has 2");
  expect_refused("path,label\na.jpg,b,c\n", "line 2 has 3 cells, and the header has 2");
  expect_refused("path,label\na.jpg,\"cat\nb.jpg,dog\n", "line 2 has a quote that is not closed");
  expect_refused("path,label\na.jpg,\"cat\"s\n", "line 2 has text after a closing quote");
}

TEST(CsvNumber, IsTheWholeCellWithoutSpaces) {
  EXPECT_EQ(csv_number(" -2.5e1\t"), -25.0);
  EXPECT_EQ(csv_number("+3"), 3.0);
  EXPECT_EQ(csv_number("1e-400"), 0.0);
  for (const char* const bad : {"", " ", "x", "1 2", "1x", "--1"}) EXPECT_FALSE(csv_number(bad)) << bad;
}

TEST(CsvField, HasQuotesIfItRequiresThem) {
  EXPECT_EQ(csv_field("a b"), "a b");
  EXPECT_EQ(csv_field("caf\xe9,b"), "\"caf\\xe9,b\"");
  EXPECT_EQ(csv_field("a, \"b\"\n"), "\"a, \"\"b\"\"\n\"");
}

}  // namespace
}  // namespace carillon::testing
