// Sequential sources of bytes: GzipStream decompresses GZIP data. RecordSource reads a plain or GZIP record file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/data/records/mapped_file.h"

namespace carillon {

/// Writes the next bytes to `out` and returns their number, which is less than requested only at the end. Errors: the
/// errors of the source of the bytes.
using ByteInput = std::function<std::size_t(std::span<std::byte> out)>;

// GzipStream: decompresses GZIP data (RFC 1952) of one or more consecutive members.

/// True if `data` starts with GZIP's magic bytes, 1f 8b.
bool is_gzip(std::span<const std::byte> data);

class GzipStream {
 public:
  explicit GzipStream(ByteInput compressed);
  GzipStream(GzipStream&&) noexcept;
  GzipStream& operator=(GzipStream&&) noexcept;
  ~GzipStream();

  /// Decompresses into `out` and returns the number of bytes written. The number is less than requested only at the end
  /// or before damage, and 0 at the end. The bytes before damage are returned first; the next call throws. Errors: data
  /// (the message does not contain the file's name); errors of the input.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sequential bytes of a record file; GZIP files are decompressed.
class RecordSource {
 public:
  static constexpr std::size_t large_piece = 256 << 10;  // this size fits in the L2 cache
  static constexpr std::size_t small_piece = 4 << 10;    // piece size for readers that skip most bytes

  /// Opens the source of a record file. Errors: data (the message does not contain the file's name).
  static std::unique_ptr<RecordSource> open(MappedFile file);
  virtual ~RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;

  virtual bool is_gzip() const = 0;
  /// Returns the next bytes without consuming them: at least `bytes`, or fewer at the end of the stream. Reads the file
  /// in pieces of about `piece_bytes`. The result is valid until the next call. Errors: data (the message does not
  /// contain the file's name).
  std::span<const std::byte> peek(std::size_t bytes, std::size_t piece_bytes = large_piece);
  /// Counts the bytes that are left in the stream, up to `bytes`. Errors: see `peek`.
  virtual std::uint64_t count_up_to(std::uint64_t bytes) = 0;
  /// Consumes `bytes` bytes that `peek` returned or `count_up_to` counted.
  void skip(std::uint64_t bytes);
  /// Frees the buffer. No reads are allowed afterwards.
  void close();

  const MappedFile& file() const { return file_; }

 protected:
  explicit RecordSource(MappedFile file) : file_(std::move(file)) {}
  std::size_t held() const { return end_ - begin_; }

 private:
  /// Writes the next bytes of the stream to `out` and returns their number, which is 0 at the end.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// Skips bytes that have been counted.
  virtual void pass(std::uint64_t bytes) = 0;
  void make_room(std::size_t piece_bytes);

  MappedFile file_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // range of the unread bytes in buffer_
};

}  // namespace carillon
