#include "carillon/core/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::read_text;
using testing::write_text;

class PlainFile : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  testing::TemporaryDirectory directory_;
};

TEST_F(PlainFile, IsAllThatIsOpened) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(path("fifo"), path("link"));
  for (const auto& other : {path("fifo"), path("link"), directory_.path(), std::filesystem::path("/dev/zero")}) {
    EXPECT_EQ(error_of([&] { open_plain_file(other, "it"); }).code(), ExitCode::data) << other;
    EXPECT_EQ(error_of([&] { open_plain_file(other, "it", ExitCode::usage); }).code(), ExitCode::usage) << other;
  }
  EXPECT_STREQ(error_of([&] { open_plain_file(path("fifo"), "it"); }).what(), "it: is not a regular file");
  EXPECT_EQ(error_of([&] { open_plain_file(path("nothing"), "it"); }).code(), ExitCode::no_input);
}

TEST_F(PlainFile, IsReadWholeUpToALimit) {
  for (const std::size_t bytes : {0u, 1u, 65536u, 65537u, 200000u}) {
    const std::string text(bytes, 'x');
    write_text(path("a"), text);
    EXPECT_EQ(read_plain_file(path("a"), "it", bytes), text);
    if (bytes == 0) continue;
    EXPECT_EQ(error_of([&] { read_plain_file(path("a"), "it", bytes - 1); }).code(), ExitCode::data);
  }
  EXPECT_FALSE(read_plain_file("/proc/self/status", "it", 1 << 20).empty());  // which tells size 0
}

TEST_F(PlainFile, OfATemporarysNameIsNotWrittenThroughALink) {
  write_text(path("precious"), "kept");
  std::filesystem::create_symlink(path("precious"), path(fmt::format("a.{}.tmp", ::getpid())));
  write_file_atomically(path("a"), std::as_bytes(std::span(std::string_view("new"))));
  EXPECT_EQ(read_text(path("precious")), "kept");
  EXPECT_EQ(read_text(path("a")), "new");
}

}  // namespace
}  // namespace carillon
