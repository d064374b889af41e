// Memory mappings: MappedFile (a file for reading), copy_mapped (a copy of mapped bytes), and PageArray (a growing
// array).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <stop_token>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

/// A file has changed since it was opened. Its records may be undamaged, so skip_damaged must not skip them.
class FileChangedError : public Error {
 public:
  using Error::Error;
};

/// A regular file, mapped for reading. No descriptor stays open, so a process can map thousands of files with any
/// descriptor limit. Another process can change or truncate the file later. After opening, read the bytes with
/// copy_mapped and call check_unchanged.
class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the file at `path`. Errors: no_input (the file does not exist), data (the file is a directory or another
  /// non-regular file), io.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Returns the modification time that the file had when it was opened, since 1970.
  std::int64_t changed_nanoseconds() const {
    return std::int64_t{origin_.changed.tv_sec} * 1'000'000'000 + origin_.changed.tv_nsec;
  }

  /// Compares size and modification time with the values that the file had when it was opened. If the file was removed
  /// or replaced by another file, it counts as unchanged, because the mapping keeps the old file. Errors:
  /// FileChangedError; the message names the file.
  void check_unchanged() const;

  /// A hint: all bytes will be read in order. The kernel then reads missing parts in large pieces and uses large pages,
  /// which are cheap to map.
  void expect_reading_through() const;
  /// A hint: the caller will read small parts that are far from each other, and call `announce` before it reads each
  /// part. The kernel then reads nothing else.
  void expect_reading_in_places() const;
  /// A hint: the bytes from `begin` to `end` will be read next.
  void announce(std::uint64_t begin, std::uint64_t end) const;
  /// A hint: the bytes before `end` will not be needed soon.
  void give_up(std::size_t end) const;
  /// A hint: the bytes from `begin` to `end` will be needed soon. Reads them from the file system in large pieces until
  /// `stop` is requested or a read fails.
  void fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const;

 private:
  /// The file's identity and state when it was opened.
  struct Origin {
    std::string path;
    dev_t device = 0;
    ino_t number = 0;
    off_t bytes = 0;
    timespec changed{};
  };

  std::span<const std::byte> bytes_;
  Origin origin_;
};

// copy_mapped: copies bytes of a mapped file that another process may truncate at any time.
//
// If a file is truncated, reading its mapped pages beyond the new end raises SIGBUS, which ends the process. During a
// copy, the signal is caught and becomes an Error. Any other SIGBUS has its previous effect.

/// Copies the mapped bytes `from` to `to`. Errors: data (the file was truncated; the message does not contain the
/// file's name).
void copy_mapped(std::span<const std::byte> from, std::byte* to);

/// A growing byte array in one anonymous mapping. The mapping has huge pages if the kernel has them.
///
/// When the array grows, the kernel moves page tables, not bytes (mremap(2)). Untouched pages use no memory, so the
/// peak memory is the array's size.
class PageArray {
 public:
  PageArray() = default;
  PageArray(const PageArray&) = delete;
  PageArray& operator=(const PageArray&) = delete;
  ~PageArray();

  /// Appends `bytes` zero bytes and returns their address, which is valid until the next append. Errors: failed (there
  /// is not enough memory).
  std::uint8_t* append(std::size_t bytes);
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void grow(std::size_t capacity);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace carillon
