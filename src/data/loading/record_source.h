// RecordSource: the bytes of a record file in order, as they are in it or, of a GZIP file, inflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/data/records/mapped_file.h"

namespace carillon {

class RecordSource {
 public:
  static constexpr std::size_t large_piece = 256 << 10;  // stays in the second-level cache
  static constexpr std::size_t small_piece = 4 << 10;    // for who skips most bytes

  /// Errors: data, without the file's name.
  static std::unique_ptr<RecordSource> open(MappedFile file);
  virtual ~RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;

  virtual bool is_gzip() const = 0;
  /// The next bytes without consuming them, read from the file in pieces of about `piece_bytes`: at least `bytes`,
  /// fewer only where the stream ends. Valid until the next call. Errors: data, without the file's name.
  std::span<const std::byte> peek(std::size_t bytes, std::size_t piece_bytes = large_piece);
  /// How many of the next `bytes` bytes there are. Errors: as `peek`.
  virtual std::uint64_t count_up_to(std::uint64_t bytes) = 0;
  /// Consumes `bytes`, which `peek` has shown or `count_up_to` has counted.
  void skip(std::uint64_t bytes);
  /// Frees the buffer: nothing more will be read.
  void close();

  const MappedFile& file() const { return file_; }

 protected:
  explicit RecordSource(MappedFile file) : file_(std::move(file)) {}
  std::size_t held() const { return end_ - begin_; }

 private:
  /// The stream's next bytes, at most `out`'s size of them; 0 at its end.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// Passes over bytes that have been counted.
  virtual void pass(std::uint64_t bytes) = 0;
  void make_room(std::size_t piece_bytes);

  MappedFile file_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of the unread bytes in buffer_
};

}  // namespace carillon
