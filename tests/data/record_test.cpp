#include "carillon/data/record.h"

#include <gmock/gmock.h>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RecordTest : public ScratchTest {
 protected:
  static std::vector<std::string> read_all(const std::string& path, RecordCheck check = RecordCheck::data) {
    RecordReader reader(path, check);
    std::vector<std::string> all;
    for (Record record; reader.next(record);) all.emplace_back(record.data.begin(), record.data.end());
    return all;
  }

  /// Expects that the reading of `bytes` fails with code 65 at byte `offset` of the file, in record `number`. Returns
  /// the text of the error.
  std::string damage(const std::string& bytes, int number, std::size_t offset,
                     RecordCheck check = RecordCheck::data) const {
    const std::string file = write("damaged", bytes);
    const Failure failure = failure_of([&] { read_all(file, check); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, StartsWith(fmt::format("{}: record {} at byte {}: ", file, number, offset)));
    EXPECT_EQ(failure.text.find('\n'), std::string::npos);
    return failure.text;
  }

  static std::string framed(const std::vector<std::string>& records) {
    std::string bytes;
    for (const std::string& record : records) append_record(bytes, record);
    return bytes;
  }

  /// Returns a record header with `length` and a correct checksum.
  static std::string header(std::uint64_t length) {
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    const std::uint32_t crc = masked_crc32c(std::as_bytes(std::span(bytes)));
    return bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  }

  const std::vector<std::string> three_ = {"first", "", std::string(100'000, 'x')};
  const std::string bytes_ = framed(three_);
  static constexpr std::size_t second_ = 12 + 5 + 4, third_ = second_ + 16;  // offsets of the second and third record
};

TEST_F(RecordTest, WrittenRecordsAreReadBack) { EXPECT_EQ(read_all(write("a", bytes_)), three_); }

TEST_F(RecordTest, TensorFlowsRecordsAreWrittenEquallyByteForByte) {
  const auto records = read_all(sample_path("tensorflow.tfrecord"));
  EXPECT_EQ(records.size(), 20u);
  EXPECT_EQ(framed(records), read_bytes(sample_path("tensorflow.tfrecord")));
}

TEST_F(RecordTest, GzipGivesTheSameRecordsAsPlain) {
  EXPECT_EQ(read_all(sample_path("tensorflow_gzip.tfrecord")), read_all(sample_path("tensorflow.tfrecord")));
  EXPECT_EQ(read_all(write("a", gzip_member(bytes_))), three_);
}

TEST_F(RecordTest, GzipMembersMayBeCutAnywhere) {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{3}, std::size_t{20}, std::size_t{5000}, bytes_.size()})
    EXPECT_EQ(read_all(write("a", gzip_member(bytes_.substr(0, cut)) + gzip_member(bytes_.substr(cut)))), three_);
}

TEST_F(RecordTest, RecordsCarryNumberOffsetAndChecksum) {
  RecordReader reader(write("a", bytes_));
  Record record;
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.stored_crc, masked_crc32c(std::as_bytes(std::span(std::string_view("first")))));
  ASSERT_TRUE(reader.next(record));
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record.number, 2u);
  EXPECT_EQ(record.offset, third_);
  EXPECT_FALSE(reader.next(record));
  EXPECT_FALSE(reader.next(record));
}

TEST_F(RecordTest, AnEmptyFileHasNoRecords) {
  EXPECT_TRUE(read_all(write("a", "")).empty());
  EXPECT_TRUE(read_all(write("a", gzip_member(""))).empty());
}

TEST_F(RecordTest, EveryFlippedBitIsFoundAtItsRecord) {
  const std::string small = framed({"first", "second"});
  for (std::size_t bit = 0; bit < 8 * small.size(); ++bit) {
    std::string flipped = small;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const bool in_first = bit / 8 < second_;
    damage(flipped, in_first ? 0 : 1, in_first ? 0 : second_);
  }
}

TEST_F(RecordTest, EveryCutIsFoundAtItsRecord) {
  const std::string small = framed({"first", "second"});
  for (std::size_t cut = 1; cut < small.size(); ++cut) {
    if (cut == second_) continue;  // with this length, the file is one complete record
    damage(small.substr(0, cut), cut < second_ ? 0 : 1, cut < second_ ? 0 : second_);
  }
}

TEST_F(RecordTest, ErrorsDescribeTheDamage) {
  std::string bad_length = bytes_, bad_data = bytes_;
  bad_length[second_ + 9] ^= 1;
  bad_data[third_ + 500] ^= 1;
  EXPECT_THAT(damage(bad_length, 1, second_), HasSubstr("the length's checksum is wrong"));
  EXPECT_THAT(damage(bad_data, 2, third_), HasSubstr("the data's checksum is wrong"));
  EXPECT_THAT(damage(bytes_.substr(0, third_ + 5), 2, third_), HasSubstr("header ends early: only 5 of 12 bytes"));
  EXPECT_THAT(damage(bytes_.substr(0, third_ + 20), 2, third_), HasSubstr("data ends early: only 8 of 100004 bytes"));
  EXPECT_THAT(damage(bytes_ + "more", 3, bytes_.size()), HasSubstr("or has trailing bytes"));
}

TEST_F(RecordTest, WithoutDataChecksOnlyFramingIsChecked) {
  std::string bad_data = bytes_;
  bad_data[third_ + 500] ^= 1;
  EXPECT_EQ(read_all(write("a", bad_data), RecordCheck::framing).size(), 3u);
  EXPECT_THAT(damage(bytes_.substr(0, third_ + 20), 2, third_, RecordCheck::framing), HasSubstr("data ends early"));
}

TEST_F(RecordTest, AnAbsurdLengthIsRejectedForAnyChecksum) {
  const std::uint64_t absurd = std::uint64_t{1} << 62;
  std::string wrong = header(absurd);
  wrong[8] ^= 1;
  for (const std::string& before : {std::string(), framed({"first"})}) {
    const std::size_t number = before.empty() ? 0 : 1;
    EXPECT_THAT(damage(before + header(absurd), static_cast<int>(number), before.size()),
                HasSubstr("exceeds the limit"));
    EXPECT_THAT(damage(before + header(~0ull), static_cast<int>(number), before.size()),
                HasSubstr("exceeds the limit"));
    EXPECT_THAT(damage(gzip_member(before + header(absurd)), static_cast<int>(number), before.size()),
                HasSubstr("exceeds the limit"));
    EXPECT_THAT(damage(before + wrong, static_cast<int>(number), before.size()), HasSubstr("checksum is wrong"));
  }
  EXPECT_THAT(damage(gzip_member(header(max_gzip_record_bytes) + "few"), 0, 0),
              HasSubstr("data ends early: only 3 of"));
}

TEST_F(RecordTest, ATextFileIsCalledSo) {
  EXPECT_THAT(damage("label,image\n3,somewhere.png\n", 0, 0), HasSubstr("looks like text"));
  EXPECT_THAT(damage("short\n", 0, 0), HasSubstr("looks like text"));
}

TEST_F(RecordTest, DamagedGzipIsFoundAtItsRecord) {
  std::string noise(400'000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i >> 7);
  const std::string whole = gzip_member(framed({"first", noise}));
  EXPECT_THAT(damage(whole.substr(0, whole.size() - 9), 1, second_), HasSubstr("GZIP data is truncated"));
  EXPECT_THAT(damage(whole.substr(0, whole.size() / 2), 1, second_), HasSubstr("GZIP data is truncated"));
  std::string flipped = whole;
  flipped[flipped.size() - 5] ^= 1;  // the changed byte is in the CRC32 of the trailer
  EXPECT_THAT(damage(flipped, 2, second_ + 16 + noise.size()), HasSubstr("GZIP data is damaged"));
  EXPECT_THAT(damage(whole + "more", 2, second_ + 16 + noise.size()),
              HasSubstr("trailing bytes that are not GZIP data"));
}

TEST_F(RecordTest, AMissingFileIsCode66AndADirectoryCode65) {
  const Failure missing = failure_of([&] { RecordReader reader(path("nowhere")); });
  EXPECT_EQ(missing.code, ExitCode::no_input);
  EXPECT_THAT(missing.text, HasSubstr(path("nowhere")));
  const Failure directory = failure_of([&] { RecordReader reader(directory_.string()); });
  EXPECT_EQ(directory.code, ExitCode::data);
  EXPECT_THAT(directory.text, HasSubstr("is a directory"));
}

TEST_F(RecordTest, RecordsAreReadAgainInAnyOrderAnnouncedOrNot) {
  RecordReader reader(write("a", bytes_), RecordCheck::framing);
  std::vector<RecordPlace> places;
  for (RecordPlace place; reader.next_place(place);) places.push_back(place);
  ASSERT_EQ(places.size(), three_.size());
  std::vector<std::uint8_t> buffer;
  for (const bool announces : {false, true}) {
    if (announces) reader.expect_reading_in_places();
    for (const std::size_t i : {2, 0, 1}) {
      if (announces) reader.announce(places[i]);
      const Record record = reader.read_again(places[i], buffer);
      EXPECT_EQ(std::string(record.data.begin(), record.data.end()), three_[i]) << i;
    }
  }
}

}  // namespace
}  // namespace carillon
