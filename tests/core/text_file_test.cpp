#include "src/core/text_file.h"

#include <gmock/gmock.h>

#include "src/core/csv.h"
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

}  // namespace
}  // namespace carillon::testing
