// Records: TFRecord framing, read from memory-mapped plain files and from GZIP streams, and written.
//
// Format (tensorflow/core/lib/io/record_writer.h), little endian, any number of times:
//   u64 length | u32 masked CRC32C of the length's 8 bytes | `length` bytes of data | u32 masked CRC32C of the data
// masked(crc) = (crc rotated right by 15) + 0xa282ead8. A GZIP file (RFC 1952; first bytes 1f 8b) holds this stream
// compressed, in one member or several. An empty file is a file of zero records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// Bytes around a record's data: length and its checksum before, the data's checksum after.
inline constexpr std::size_t record_header_bytes = 12;
inline constexpr std::size_t record_footer_bytes = 4;

/// Longer records are taken for damage: no protobuf message reaches 2 GiB, and a GZIP stream's record has to be held in
/// memory (where it grows only as its bytes really arrive).
inline constexpr std::uint64_t max_plain_record_bytes = (std::uint64_t{1} << 31) - 1;
inline constexpr std::uint64_t max_gzip_record_bytes = std::uint64_t{256} << 20;

/// The CRC32C of `data` as TFRecord stores it.
std::uint32_t masked_crc32c(std::span<const std::byte> data);

/// Appends `data`, framed as one record, to `out`.
void append_record(std::string& out, std::span<const std::byte> data);
void append_record(std::string& out, std::string_view data);

/// What a reader checks besides the framing (lengths and their checksums).
enum class RecordCheck { framing, data };

struct Record {
  std::span<const std::uint8_t> data{};  ///< valid until the reader's next call
  std::uint64_t number = 0;              ///< counts from 0 within the file
  std::uint64_t offset = 0;              ///< of the record's header in the file; in the inflated stream of a GZIP file
  std::uint32_t stored_crc = 0;          ///< the masked CRC32C of the data as stored, whether checked or not
};

/// "<path>: record <number> at byte <offset>": how errors name a record.
std::string describe_record(const std::string& path, const Record& record);

/// Checks the data against the stored checksum. Errors: data, naming the record.
void check_record_data(const std::string& path, const Record& record);

/// Where a record is in its file, and what it is known by.
struct RecordPlace {
  std::uint64_t number = 0, offset = 0;  ///< as Record's
  std::uint64_t data_bytes = 0;
  std::uint32_t stored_crc = 0;
};

/// Of the record in its file, header and footer included.
constexpr std::uint64_t whole_bytes(const RecordPlace& place) {
  return record_header_bytes + place.data_bytes + record_footer_bytes;
}

class RecordReader {
 public:
  /// Maps `path`; no descriptor stays open. Errors: no_input (no such file), data (not a plain file), io.
  explicit RecordReader(const std::string& path, RecordCheck check = RecordCheck::data);
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  /// Reads the next record; false after the last. Errors: data, naming file, record number, byte offset and cause.
  bool next(Record& record);

  /// As `next`, but leaves the record's data unread. Once this or `next` has found the end, the reader keeps no buffer.
  bool next_place(RecordPlace& place);

  /// Reads a record of a plain file again, into `buffer`, and checks that it is the one that was there: safe from
  /// several threads, each with its own buffer. Errors: data (naming the file and, but where this is known to have
  /// changed, the record).
  Record read_again(const RecordPlace& place, std::vector<std::uint8_t>& buffer) const;

  /// A hint: brings the file's bytes from `begin` to `end` into memory by sequential reads. Ends early, and silently,
  /// where that fails or `stop` is asked for.
  void fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const;

  /// A hint: records are read again in no order, each announced by `announce`, and nothing between them.
  void expect_reading_in_places() const;
  /// A hint: the record is read again next.
  void announce(const RecordPlace& place) const;

  /// Errors: data (the file was cut or written to since the reader opened it).
  void check_unchanged() const;

  const std::string& path() const;
  bool gzip() const;
  std::uint64_t file_bytes() const;          ///< size of the file as it is on disk
  std::int64_t changed_nanoseconds() const;  ///< its time of change, since 1970, when it was opened

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon
