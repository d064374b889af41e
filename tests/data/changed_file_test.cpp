// Tests of files that change while they are in use. The reader must report an error with the file's name. It must never
// return wrong records, and a change must never cause a signal such as SIGBUS.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <numeric>

#include "src/data/records/mapped_file.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int record_count = 200;

class ChangedFile : public ScratchTest {
 protected:
  void SetUp() override {
    ScratchTest::SetUp();
    write("a", records_);
  }

  Dataset open() const { return Dataset::open(std::vector{path("a")}, mnist_decoder, CacheMode::none); }

  static int read(const Dataset& dataset, std::size_t i) {
    std::vector<std::uint8_t> image(784);
    return read_class(dataset, i, i, image);
  }

  /// Expects that the reading of record i fails with code 65. Returns the text of the error.
  static std::string refusal(const Dataset& dataset, std::size_t i) {
    const Failure failure = failure_of([&] { read(dataset, i); });
    EXPECT_EQ(failure.code, ExitCode::data);
    return failure.text;
  }

  /// Overwrites the file in place, without a change of the file's size and time.
  void overwrite_unseen(const std::string& bytes) const {
    struct stat before {};
    ::stat(path("a").c_str(), &before);
    ASSERT_EQ(static_cast<std::size_t>(before.st_size), bytes.size());
    const int descriptor = ::open(path("a").c_str(), O_WRONLY);
    EXPECT_EQ(::pwrite(descriptor, bytes.data(), bytes.size(), 0), before.st_size);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ::futimens(descriptor, times);
    ::close(descriptor);
  }

  const std::string records_ = mnist_records(record_count);
};

TEST_F(ChangedFile, ThatWasCutIsRefusedByName) {
  const Dataset dataset = open();
  std::filesystem::resize_file(path("a"), 5000);
  EXPECT_EQ(refusal(dataset, record_count - 1),
            fmt::format("{}: changed while it was in use: it had {} bytes and has 5000", path("a"), records_.size()));
}

TEST_F(ChangedFile, ThatWasCutBetweenTwoReadsIsRefusedByName) {
  const Dataset dataset = open();
  EXPECT_EQ(read(dataset, 13), 3);  // the next check of the file's size is not due yet
  std::filesystem::resize_file(path("a"), 0);
  EXPECT_THAT(refusal(dataset, 13), StartsWith(path("a") + ": changed while it was in use"));
}

TEST_F(ChangedFile, ThatWasWrittenToIsRejectedForAnyContent) {
  const Dataset dataset = open();
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1, .tv_nsec = 0}};
  ::utimensat(AT_FDCWD, path("a").c_str(), times, 0);
  EXPECT_EQ(refusal(dataset, 0), path("a") + ": changed while it was in use: it was written to");
}

TEST_F(ChangedFile, IsNoDamagedRecordThatMayBeSkipped) {
  Dataset dataset = open();
  dataset.skip_damaged([](const std::string& what) { ADD_FAILURE() << "skipped: " << what; });
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1, .tv_nsec = 0}};
  ::utimensat(AT_FDCWD, path("a").c_str(), times, 0);
  EXPECT_EQ(refusal(dataset, 0), path("a") + ": changed while it was in use: it was written to");
}

TEST_F(ChangedFile, IsNotBelievedInItsLengths) {
  const Dataset dataset = open();
  overwrite_unseen(std::string(records_.size(), '\xff'));
  EXPECT_THAT(refusal(dataset, 7), StartsWith(path("a") + ": record 7 at byte "));
  EXPECT_THAT(refusal(dataset, 7), HasSubstr("its length has changed"));
}

TEST_F(ChangedFile, OfOtherSoundRecordsIsRefused) {
  const Dataset dataset = open();
  std::string others;
  for (int i = 0; i < record_count; ++i) append_record(others, mnist_example(i + 1, i % 10));
  overwrite_unseen(others);
  EXPECT_THAT(refusal(dataset, 7), HasSubstr("record 7 at byte"));
  EXPECT_THAT(refusal(dataset, 7), HasSubstr("its checksum has changed"));
}

TEST_F(ChangedFile, ThatIsRemovedOrReplacedStaysAsItWas) {
  const Dataset removed = open();
  std::filesystem::remove(path("a"));
  EXPECT_EQ(read(removed, 13), 3);
  write("a", records_);
  const Dataset replaced = open();
  std::filesystem::rename(write("b", "something else"), path("a"));
  EXPECT_EQ(read(replaced, 13), 3);
}

TEST_F(ChangedFile, ThatIsCutWhileItIsReadThroughEndsThatInOneLine) {
  std::string noise(std::size_t{1} << 20, '\0');  // the file has more bytes than the reader reads ahead; GZIP cannot
                                                  // compress it
  std::uint32_t state = 1;
  for (char& byte : noise) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  std::string bytes;
  append_record(bytes, "first");
  append_record(bytes, noise);
  for (const std::string& content : {bytes, gzip_member(bytes)}) {
    RecordReader reader(write("long", content));
    Record record;
    ASSERT_TRUE(reader.next(record));
    std::filesystem::resize_file(path("long"), 0);
    const Failure failure = failure_of([&] { reader.next(record); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.text, path("long") + ": record 1 at byte 21: the file was truncated while it was in use");
  }
}

TEST_F(ChangedFile, PassesOtherBusErrorsToThePreviousHandler) {
  const MappedFile mapped(path("a"));
  std::byte first{};
  copy_mapped(mapped.bytes().first(1), &first);
  std::filesystem::resize_file(path("a"), 0);
  const auto as_before = [](int status) {  // the previous handler ends the process; a sanitizer's handler exits with 1
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) == 1;
  };
  EXPECT_EXIT(std::exit(static_cast<int>(mapped.bytes()[100])), as_before, "");
}

}  // namespace
}  // namespace carillon
