#include "src/core/file_tools.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAreArray;

class LinesFromEndTest : public ::testing::Test {
 protected:
  void expect_lines(const std::vector<std::string>& lines, const std::string& cut_line = "") {
    std::string text;
    std::vector<std::uint64_t> ends;
    for (const std::string& line : lines) {
      text += line + "\n";
      ends.push_back(text.size());
    }
    testing::write_text(path_, text + cut_line);
    std::vector<std::string> found;
    std::vector<std::uint64_t> found_ends;
    LinesFromEnd reader(path_);
    while (const auto line = reader.next()) {
      found.insert(found.begin(), line->text);
      found_ends.insert(found_ends.begin(), line->end_byte);
    }
    EXPECT_THAT(found, ElementsAreArray(lines));
    EXPECT_EQ(found_ends, ends);
  }

  testing::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "log";
};

TEST_F(LinesFromEndTest, AreThoseOfTheFileWithoutACutOne) {
  expect_lines({});
  expect_lines({}, "cut");
  expect_lines({""});
  expect_lines({"first", "", "third"}, "cut");
}

TEST_F(LinesFromEndTest, MayCrossBlocks) {
  constexpr std::size_t block = std::size_t{1} << 18;
  for (const std::size_t bytes : {block - 2, block - 1, block, block + 1, 3 * block}) {
    expect_lines({"first", std::string(bytes, 'x'), "last"});
    expect_lines({std::string(bytes, 'x')}, std::string(bytes, 'y'));
  }
}

TEST_F(LinesFromEndTest, HaveNoTextAboveTheLimit) {
  testing::write_text(path_, "first\n" + std::string(LinesFromEnd::max_line_bytes + 1, 'x') + "\n" +
                                 std::string(LinesFromEnd::max_line_bytes, 'y') + "\n");
  LinesFromEnd lines(path_);
  EXPECT_EQ(lines.next().value().text.size(), LinesFromEnd::max_line_bytes);
  EXPECT_EQ(lines.next().value().text, "");
  EXPECT_EQ(lines.next().value().text, "first");
  EXPECT_FALSE(lines.next().has_value());
}

TEST_F(LinesFromEndTest, AreReadFromRegularFilesOnly) {
  EXPECT_EQ(testing::error_of([] { LinesFromEnd lines("/dev/zero"); }).code(), ExitCode::data);
  EXPECT_EQ(testing::error_of([&] { LinesFromEnd lines(path_); }).code(), ExitCode::no_input);
}

TEST(OpenPredictable, OpensOnlyRegularFiles) {
  const testing::TemporaryDirectory directory;
  const auto path = [&](const char* name) { return directory.path() / name; };
  const auto error_of = [](const std::filesystem::path& file, int flags) {
    errno = 0;
    return open_predictable(file, flags) ? 0 : errno;
  };
  EXPECT_EQ(error_of(path("file"), O_RDWR), ENOENT);
  EXPECT_EQ(error_of(path("file"), O_RDWR | O_CREAT), 0);
  EXPECT_EQ(error_of(path("file"), O_RDWR | O_CREAT | O_EXCL), EEXIST);
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("file", path("link"));
  std::filesystem::create_symlink("nothing", path("dangling"));
  for (const std::filesystem::path& other :
       {path("fifo"), path("link"), path("dangling"), std::filesystem::path("/dev/null")}) {
    for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT | O_APPEND, O_RDWR | O_CREAT}) {
      EXPECT_EQ(error_of(other, flags), ELOOP) << other;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path("nothing")));
  const Error refused = testing::error_of([&] { open_predictable(path("link"), O_RDONLY, "the lock"); });
  EXPECT_EQ(refused.code(), ExitCode::io);
  EXPECT_STREQ(refused.what(), "the lock: is a link or no regular file: remove it");
}

}  // namespace
}  // namespace carillon
