// Records: reads TFRecord files (memory-mapped plain files or GZIP streams) and writes TFRecord framing.
//
// Format (tensorflow/core/lib/io/record_writer.h), little endian. A file is a sequence of:
//   u64 length | u32 masked CRC32C of the length's 8 bytes | `length` bytes of data | u32 masked CRC32C of the data.
// The mask is masked(crc) = (crc rotated right by 15) + 0xa282ead8. A GZIP file (RFC 1952; first bytes 1f 8b) holds
// this stream compressed, in one or more members. An empty file is valid and has zero records.
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

/// Bytes before a record's data (length and its checksum) and after it (checksum of the data).
inline constexpr std::size_t record_header_bytes = 12;
inline constexpr std::size_t record_footer_bytes = 4;

/// Longer records are treated as damage. No protobuf message reaches 2 GiB. A record of a GZIP stream is held in
/// memory, in a buffer that grows as its bytes arrive.
inline constexpr std::uint64_t max_plain_record_bytes = (std::uint64_t{1} << 31) - 1;
inline constexpr std::uint64_t max_gzip_record_bytes = std::uint64_t{256} << 20;

/// Masked CRC32C of `data`, as TFRecord stores it.
std::uint32_t masked_crc32c(std::span<const std::byte> data);

/// Appends `data` to `out` as one framed record.
void append_record(std::string& out, std::span<const std::byte> data);
void append_record(std::string& out, std::string_view data);

/// Reader checks: framing only (lengths and their checksums), or framing and data checksums.
enum class RecordCheck { framing, data };

struct Record {
  std::span<const std::uint8_t> data{};  ///< valid until the reader's next call
  std::uint64_t number = 0;              ///< counts from 0 within the file
  std::uint64_t offset = 0;              ///< header position in the file, or in the decompressed stream of a GZIP file
  std::uint32_t stored_crc = 0;          ///< stored masked CRC32C of the data, checked or not
};

/// "<path>: record <number> at byte <offset>", the name of a record in error messages.
std::string describe_record(const std::string& path, const Record& record);

/// Checks the data against the stored checksum. Errors: data, naming the record.
void check_record_data(const std::string& path, const Record& record);

/// Position of a record in its file, with the length and checksum that identify it.
struct RecordPlace {
  std::uint64_t number = 0, offset = 0;  ///< as in Record
  std::uint64_t data_bytes = 0;
  std::uint32_t stored_crc = 0;
};

/// Size of the record in its file, including header and footer.
constexpr std::uint64_t whole_bytes(const RecordPlace& place) {
  return record_header_bytes + place.data_bytes + record_footer_bytes;
}

class RecordReader {
 public:
  /// Maps `path` into memory; keeps no open descriptor. Errors: no_input (no such file), data (not a regular file), io.
  explicit RecordReader(const std::string& path, RecordCheck check = RecordCheck::data);
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  /// Reads the next record; returns false at the end. Errors: data, naming file, record number, byte offset and cause.
  bool next(Record& record);

  /// Like `next`, but does not read the record's data. When this function or `next` reaches the end, the reader frees
  /// its buffer.
  bool next_place(RecordPlace& place);

  /// Reads a record of a plain file again into `buffer` and checks that it is unchanged. Thread-safe if each thread has
  /// its own buffer. Errors: data; the text names the file and, unless the whole file is known to have changed, the
  /// record.
  Record read_again(const RecordPlace& place, std::vector<std::uint8_t>& buffer) const;

  /// A hint: reads bytes `begin` to `end` of the file into memory sequentially. Ignores read errors and returns early
  /// if `stop` is requested.
  void fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const;

  /// A hint: records will be read again in random order, each after a call of `announce`. The bytes between these
  /// records are not needed.
  void expect_reading_in_places() const;
  /// A hint: this record will be read again next.
  void announce(const RecordPlace& place) const;

  /// Errors: data (the file was truncated or written to after the reader opened it).
  void check_unchanged() const;

  const std::string& path() const;
  bool gzip() const;
  std::uint64_t file_bytes() const;          ///< file size on disk
  std::int64_t changed_nanoseconds() const;  ///< modification time at opening, since 1970

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon
