#include "src/data/convert/csv_table.h"

#include <gmock/gmock.h>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CsvTableTest : public ScratchTest {
 protected:
  CsvTable read(const std::string& text) const { return read_csv(write("table.csv", text)); }
  void expect_refused(const std::string& text, const std::string& cause) const {
    const Failure failure = failure_of([&] { read(text); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr("table.csv: " + cause));
  }
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

}  // namespace
}  // namespace carillon
