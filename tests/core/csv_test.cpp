#include "src/core/csv.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;

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
