// Tests of index files. Reading an index file must return what was written. An index must be used only if its data
// files have not changed. A damaged index must be rejected.
#include "carillon/data/record.h"

#include <gmock/gmock.h>

#include "src/data/records/record_index.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class IndexFileTest : public ProgramFixture {
 protected:
  void SetUp() override {
    ProgramFixture::SetUp();
    write("train-0", mnist_records(7));
    write("train-1", mnist_records(3));
    write("train-2", "");
  }
  std::vector<std::string> files() const { return {path("train-0"), path("train-1"), path("train-2")}; }
  void write_index() const {
    EXPECT_EQ(run("tfrecord_inspect --index " + path("train-0") + " " + path("train-1") + " " + path("train-2")).code,
              0);
  }
  Dataset open() const { return Dataset::open(files(), mnist_decoder, CacheMode::none); }
  std::vector<std::int32_t> labels() const {
    const Dataset dataset = open();
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> image(dataset.image_bytes());
    for (std::size_t i = 0; i < dataset.size(); ++i) labels.push_back(read_class(dataset, i, i, image));
    return labels;
  }
  /// Changes the entry of a file. Afterwards the entry is as if the file had had a different size (`size_changed`) or a
  /// different time when the index was made.
  static void make_stale(IndexedFile& file, bool size_changed) {
    if (size_changed) {
      file.bytes += 1;
    } else {
      file.changed_nanoseconds -= 1;
    }
  }
  /// Returns how many records of train-0 a RecordIndex has if it is created with the index entries `known`.
  std::size_t records_of_a_record_index(FileIndex known) const {
    RecordIndex index(std::move(known));
    std::size_t count = 0;
    index.add(path("train-0"), [&](const RecordPlace&) { ++count; });
    return count;
  }
};

TEST_F(IndexFileTest, SaysWhereRecordsAre) {
  const std::vector<std::int32_t> before = labels();
  const std::uint32_t fingerprint = open().fingerprint();
  write_index();
  const FileIndex index = read_index_file(directory_);
  ASSERT_EQ(index.size(), 3u);
  EXPECT_EQ(index.at("train-0").offsets.size(), 7u);
  EXPECT_EQ(index.at("train-2").offsets.size(), 0u);
  EXPECT_EQ(labels(), before);
  EXPECT_EQ(open().fingerprint(), fingerprint);
  EXPECT_EQ(open().name_of(8), path("train-1") + ": record 1");
}

/// The index lacks one record. Therefore the opened dataset also lacks this record, because opening the dataset does
/// not read the files.
TEST_F(IndexFileTest, IsBelievedWithoutLookingIntoTheFiles) {
  write_index();
  FileIndex index = read_index_file(directory_);
  index.at("train-0").offsets.pop_back();
  index.at("train-0").checksums.pop_back();
  write_index_file(directory_, index);
  EXPECT_EQ(open().size(), 9u);
}

TEST_F(IndexFileTest, OfAFileThatHasChangedIsPassedOver) {
  write_index();
  write("train-0", mnist_records(5));
  EXPECT_EQ(open().size(), 8u);
  write("train-0", mnist_records(7));  // the size is the same as in the index, but the time differs
  EXPECT_EQ(labels().size(), 10u);
}

/// Two functions check whether a file has changed. Each of the next two tests calls one of them.
TEST_F(IndexFileTest, TheKnownFilesAreThoseThatHaveNotChanged) {
  write_index();
  EXPECT_EQ(known_files(files()).size(), 3u);
  const FileIndex good = read_index_file(directory_);
  for (const bool size_changed : {false, true}) {
    FileIndex stale = good;
    make_stale(stale.at("train-0"), size_changed);
    write_index_file(directory_, stale);
    const FileIndex known = known_files(files());
    EXPECT_EQ(known.size(), 2u);
    EXPECT_FALSE(known.contains(path("train-0")));
  }
}

TEST_F(IndexFileTest, ARecordIndexReadsTheRecordsOfAFileThatHasChanged) {
  const IndexedFile good = index_files({path("train-0")}, [](std::size_t) {}).front();
  for (const bool size_changed : {false, true}) {
    IndexedFile stale = good;
    stale.offsets.pop_back();
    stale.checksums.pop_back();
    EXPECT_EQ(records_of_a_record_index({{path("train-0"), stale}}), 6u);
    make_stale(stale, size_changed);
    EXPECT_EQ(records_of_a_record_index({{path("train-0"), stale}}), 7u);
  }
}

TEST_F(IndexFileTest, WithAWrongRecordEndsInAnErrorThatNamesIt) {
  write_index();
  FileIndex index = read_index_file(directory_);
  index.at("train-0").checksums[2] ^= 1;
  write_index_file(directory_, index);
  const Failure failure = failure_of([&] { labels(); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("train-0: record 2"));
}

TEST_F(IndexFileTest, AnyFlippedByteIsRejected) {
  write_index();
  const std::string good = read_bytes(path("records.index"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write("records.index", bad);
    const Failure failure = failure_of([&] { open(); });
    ASSERT_EQ(failure.code, ExitCode::data) << i;
    ASSERT_THAT(failure.text, HasSubstr("records.index: is damaged")) << i;
  }
  for (std::size_t bytes = 0; bytes < good.size(); bytes += 7) {
    write("records.index", good.substr(0, bytes));
    EXPECT_EQ(failure_of([&] { open(); }).code, ExitCode::data) << bytes;
  }
}

TEST_F(IndexFileTest, OfDamagedOrCompressedFilesIsNotWritten) {
  write("train-1", mnist_records(3).substr(0, 1000));
  expect_failure("tfrecord_inspect --index " + path("train-0") + " " + path("train-1"), ExitCode::data,
                 "train-1: record 1");
  write("train-1", gzip_member(mnist_records(3)));
  expect_failure("tfrecord_inspect --index " + path("train-1"), ExitCode::usage, "GZIP");
  EXPECT_FALSE(std::filesystem::exists(path("records.index")));
}

}  // namespace
}  // namespace carillon
