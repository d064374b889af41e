// Records: reads TFRecord files (memory-mapped plain files or GZIP streams) and writes TFRecord framing, index files of
// record positions, and the messages tf.train.Example in records.
//
// Format (tensorflow/core/lib/io/record_writer.h), little endian. A file is a sequence of:
//   u64 length | u32 masked CRC32C of the length's 8 bytes | `length` bytes of data | u32 masked CRC32C of the data.
// The mask is masked(crc) = (crc rotated right by 15) + 0xa282ead8. A GZIP file (RFC 1952; first bytes 1f 8b) holds
// this stream compressed, in one or more members. An empty file is valid and has zero records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
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

/// Records longer than this are treated as damaged. The limit of plain files is the limit of protobuf messages, 2 GiB.
/// The limit of GZIP files is lower, because the reader holds the whole record in memory.
inline constexpr std::uint64_t max_plain_record_bytes = (std::uint64_t{1} << 31) - 1;
inline constexpr std::uint64_t max_gzip_record_bytes = std::uint64_t{256} << 20;

/// Masked CRC32C of `data`, as TFRecord stores it.
std::uint32_t masked_crc32c(std::span<const std::byte> data);

/// Appends `data` to `out` as one framed record.
void append_record(std::string& out, std::span<const std::byte> data);
void append_record(std::string& out, std::string_view data);

/// The checks of a reader: only the framing (lengths and their checksums), or also the checksums of the data.
enum class RecordCheck { framing, data };

struct Record {
  std::span<const std::uint8_t> data{};  ///< valid until the reader's next call
  std::uint64_t number = 0;              ///< number of the record in its file, from 0
  std::uint64_t offset = 0;      ///< position of its header in the file, or in the decompressed stream of a GZIP file
  std::uint32_t stored_crc = 0;  ///< stored masked CRC32C of the data; the reader may not have checked it
};

/// "<path>: record <number> at byte <offset>", the name of a record in error messages.
std::string describe_record(const std::string& path, const Record& record);

/// Checks the data against the stored checksum. Errors: data; the message names the record.
void check_record_data(const std::string& path, const Record& record);

/// Position of a record in its file, with the length and checksum that identify it.
struct RecordPlace {
  std::uint64_t number = 0, offset = 0;  ///< see Record
  std::uint64_t data_bytes = 0;
  std::uint32_t stored_crc = 0;
};

/// Size of the record in its file, including header and footer.
constexpr std::uint64_t whole_bytes(const RecordPlace& place) {
  return record_header_bytes + place.data_bytes + record_footer_bytes;
}

class RecordReader {
 public:
  /// Maps `path` into memory; keeps no open descriptor. Errors: no_input (the file does not exist), data (it is not a
  /// regular file), io.
  explicit RecordReader(const std::string& path, RecordCheck check = RecordCheck::data);
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  /// Reads the next record; returns false at the end. Errors: data; the message names file, record number, byte offset
  /// and cause.
  bool next(Record& record);

  /// Moves to the next record like `next`, but does not read its data. When this function or `next` reaches the end,
  /// the reader frees its buffer.
  bool next_place(RecordPlace& place);

  /// Reads a record of a plain file again into `buffer` and checks that it is unchanged. Thread-safe if each thread has
  /// its own buffer. Errors: data. The text names the file. The text also names the record, unless the whole file has
  /// changed.
  Record read_again(const RecordPlace& place, std::vector<std::uint8_t>& buffer) const;

  /// A hint: reads bytes `begin` to `end` of the file into memory sequentially. Ignores read errors and returns early
  /// if `stop` is requested.
  void fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const;

  /// A hint: records will be read again in random order, and `announce` will be called before each of them. The bytes
  /// between these records are not needed.
  void expect_reading_in_places() const;
  /// A hint: the program will read this record next.
  void announce(const RecordPlace& place) const;

  /// Checks that the file has not changed since the reader opened it. Errors: data (after the reader opened the file,
  /// another program truncated it or wrote to it).
  void check_unchanged() const;

  const std::string& path() const;
  bool gzip() const;
  std::uint64_t file_bytes() const;  ///< file size on disk
  std::int64_t changed_nanoseconds()
      const;  ///< the file's modification time when the reader opened it, in nanoseconds since 1970

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// IndexFile: a file in the data directory that holds the record positions of the directory's TFRecord files
// (docs/developer-guide/file-formats.md). A dataset of thousands of files can then be opened without reading them.
//
// An entry is used only if its file still has the recorded size and modification time. Reading a record still checks
// that its length and checksum match the index.

inline constexpr const char* index_file_name = "records.index";

struct IndexedFile {
  std::uint64_t bytes = 0;               ///< file size
  std::int64_t changed_nanoseconds = 0;  ///< modification time, in nanoseconds since 1970
  std::vector<std::uint64_t> offsets;    ///< record header positions in the file, ascending from 0
  std::vector<std::uint32_t> checksums;  ///< stored data checksum of each record
};

using FileIndex = std::map<std::string, IndexedFile>;  ///< by file name in a directory, or by path

/// Returns the contents of an index file, which parse_index reads.
std::string index_bytes(const FileIndex& index);
/// Parses the contents of an index file. Throws std::exception, with the cause, if the contents are damaged.
FileIndex parse_index(std::string_view bytes);

/// Reads the index of `directory`; returns an empty index if there is no index file. Errors: data (the index file is
/// damaged), io; the message names the file.
FileIndex read_index_file(const std::filesystem::path& directory);

/// Writes the index file and replaces an existing one atomically. Errors: io, usage (the index is too large for
/// read_index_file).
void write_index_file(const std::filesystem::path& directory, const FileIndex& index);

/// Returns the valid index entries of the files `paths`, by path. Reads them from the index files in the directories of
/// these files. Errors: as read_index_file.
FileIndex known_files(const std::vector<std::string>& paths);

/// Indexes the plain TFRecord files `paths` on all cores and checks their framing. Calls `done(i)` after file i, on any
/// thread. Errors: as RecordReader; usage (a file is a GZIP file).
std::vector<IndexedFile> index_files(const std::vector<std::string>& paths,
                                     const std::function<void(std::size_t)>& done);

// Example: reads an image and its label, or numbers, from a serialised tf.train.Example, and writes such a message.
//
// Format (tensorflow/core/example/{example,feature}.proto, protobuf wire format):
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }.
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3 } }.
//   Each list: repeated value = 1.
// A bounded parser without allocations reads the encoding that common writers produce. Protobuf's generated parser
// reads all other valid messages (unknown fields, split or merged messages, unpacked lists). Both parsers accept the
// same records and return the same values.

/// The names of the two features of a labelled image.
struct ExampleKeys {
  std::string image;  ///< name of a bytes feature with exactly one value
  /// Name of an int64 feature with exactly one value. parse_example_values also accepts any number of int64 or float
  /// values.
  std::string label;
};

struct LabelledBytes {
  std::span<const std::uint8_t> image;  ///< the stored bytes: pixels, or an image file
  std::int64_t label = 0;
};

/// Reads the image and the label from `record`, a serialised Example. The returned image points into `record` or
/// `scratch`. If a key occurs more than once, the last entry is used. Other features are ignored. Errors: data; the
/// text names the feature and the problem, but not the file and record.
LabelledBytes parse_example(std::span<const std::uint8_t> record, const ExampleKeys& keys, std::string& scratch);

/// An image and the values of its label feature. The values are all integers or all floats, so at least one list is
/// empty.
struct ExampleValues {
  std::span<const std::uint8_t> image;  ///< see LabelledBytes
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
};

/// Reads a record like parse_example, but accepts any number of int64 or float values in the feature `keys.label`. This
/// function is slower, because it uses protobuf's parser and copies the image to `scratch`. Errors: data, as
/// parse_example.
ExampleValues parse_example_values(std::span<const std::uint8_t> record, const ExampleKeys& keys, std::string& scratch);

/// Serialises an Example with an image and a label, for append_record.
std::string make_example(const ExampleKeys& keys, std::span<const std::uint8_t> image, std::int64_t label);

}  // namespace carillon
