#include "carillon/core/file.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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
  // The file system reports size 0 for this file.
  EXPECT_FALSE(read_plain_file("/proc/self/status", "it", 1 << 20).empty());
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class OutputFile : public PlainFile {
 protected:
  void expect_refused(const std::filesystem::path& output) {
    const std::size_t entries = testing::entry_count(directory_.path());
    for (const bool only_check : {true, false}) {
      const Error error =
          error_of([&] { only_check ? check_output(output) : write_file_atomically(output, bytes_of("new")); });
      EXPECT_EQ(error.code(), ExitCode::io);
      EXPECT_THAT(error.what(), HasSubstr(output.string() + ": "));
    }
    EXPECT_EQ(testing::entry_count(directory_.path()), entries) << "a temporary remains";
  }
};

TEST_F(OutputFile, ReplacesNoFifoSocketOrDirectory) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(listener);
  std::filesystem::create_directory(path("directory"));
  std::filesystem::create_symlink("fifo", path("link"));
  for (const char* const name : {"fifo", "socket", "directory", "link"}) expect_refused(path(name));
  EXPECT_TRUE(std::filesystem::is_fifo(path("fifo")));
  EXPECT_TRUE(std::filesystem::is_socket(path("socket")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
}

TEST_F(OutputFile, DoesNotReplaceAFifoThatWasMadeMeanwhile) {
  NewFile file(path("a"));
  file.write(bytes_of("new"));
  file.finish();
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { file.publish(); }).code(), ExitCode::io);
  EXPECT_TRUE(std::filesystem::is_fifo(path("a")));
}

TEST_F(OutputFile, IsTheTargetOfALink) {
  std::filesystem::create_directory(path("elsewhere"));
  write_text(path("elsewhere/old"), "old");
  std::filesystem::create_symlink("elsewhere/old", path("second"));
  std::filesystem::create_symlink(path("second"), path("first"));
  std::filesystem::create_symlink("elsewhere/missing", path("dangling"));
  check_output(path("first"));
  EXPECT_EQ(read_text(path("first")), "old");
  for (const char* const name : {"first", "dangling"}) write_file_atomically(path(name), bytes_of("new"));
  for (const char* const name : {"first", "second", "dangling"}) {
    EXPECT_TRUE(std::filesystem::is_symlink(path(name)));
    EXPECT_EQ(read_text(path(name)), "new");
  }
  EXPECT_EQ(testing::entry_count(path("elsewhere")), 2u);
}

TEST_F(OutputFile, IsRefusedAtTheEndOfACycleOfLinks) {
  std::filesystem::create_symlink("b", path("a"));
  std::filesystem::create_symlink("a", path("b"));
  expect_refused(path("a"));
}

TEST_F(OutputFile, IsNoLargerThanItsReadersAccept) {
  write_file_atomically(path("a"), bytes_of("four"), 4);
  EXPECT_EQ(read_plain_file(path("a"), "it", 4), "four");
  const Error error = error_of([&] { write_file_atomically(path("a"), bytes_of("fives"), 4); });
  EXPECT_EQ(error.code(), ExitCode::usage);
  EXPECT_EQ(read_text(path("a")), "four");
}

TEST_F(OutputFile, HasATemporaryNameOfItsOwn) {
  NewFile first(path("a")), second(path("a"));  // as in two containers, two writers with equal process ids
  first.write(bytes_of("1"));
  second.write(bytes_of("2"));
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(is_temporary_name(name, [](std::string_view base) { return base == "a"; })) << name;
  }
  EXPECT_EQ(testing::entry_count(directory_.path()), 2u);
  for (NewFile* const file : {&second, &first}) {
    file->finish();
    file->publish();
  }
  EXPECT_EQ(read_text(path("a")), "1");
}

TEST_F(OutputFile, IsRemovedOnlyIfItIsAFileOrALink) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", path("link"));
  write_text(path("file"), "x");
  for (const char* const name : {"link", "file", "missing"}) remove_file(path(name));
  EXPECT_EQ(error_of([&] { remove_file(path("fifo")); }).code(), ExitCode::io);
  EXPECT_EQ(testing::entry_count(directory_.path()), 1u);
}

TEST(TemporaryName, EndsInRandomDigitsOrInAProcessNumber) {
  const auto is_one = [](std::string_view name) {
    return is_temporary_name(name, [](std::string_view base) { return base == "a.h5"; });
  };
  EXPECT_TRUE(is_one("a.h5.0123456789abcdef.tmp"));
  EXPECT_TRUE(is_one("a.h5.4711.tmp"));
  for (const char* const name : {"a.h5.0123456789abcde.tmp", "a.h5.0123456789ABCDEF.tmp", "a.h5.old.tmp", "a.h5.tmp",
                                 "a.h5..tmp", "b.h5.1.tmp", "a.h5.1.tmp2"}) {
    EXPECT_FALSE(is_one(name)) << name;
  }
}

}  // namespace
}  // namespace carillon
