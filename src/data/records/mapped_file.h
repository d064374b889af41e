// MappedFile: a regular file's bytes as memory, mapped for reading.
//
// No descriptor stays open, so thousands of files can be mapped under any descriptor limit. The bytes can change, and
// go, with the file: what outlasts its opening reads them by copy_mapped (src/data/records/mapped_copy.h) and asks
// check_unchanged.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <ctime>
#include <span>
#include <stop_token>
#include <string>

namespace carillon {

class MappedFile {
 public:
  MappedFile() = default;
  /// Errors: no_input (no such file), data (a directory or other thing that is no regular file), io.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Time of change at the opening, since 1970.
  std::int64_t changed_nanoseconds() const {
    return std::int64_t{origin_.changed.tv_sec} * 1'000'000'000 + origin_.changed.tv_nsec;
  }

  /// Compares size and time of change with those at the opening. A file that was removed, or that another took the name
  /// of, is still mapped as it was. Errors: data, naming the file.
  void check_unchanged() const;

  /// A hint: all bytes will be read, in order. What of them is not in memory yet, the kernel then reads in large
  /// pieces, and keeps in large pages, which cost little to map.
  void expect_reading_through() const;
  /// A hint: small parts are read, far from each other, each announced by `announce`: the kernel then reads nothing
  /// beside them.
  void expect_reading_in_places() const;
  /// A hint: the bytes from `begin` to `end` will be read next.
  void announce(std::uint64_t begin, std::uint64_t end) const;
  /// A hint: the bytes before `end` will not be needed soon.
  void give_up(std::size_t end) const;
  /// A hint: the bytes from `begin` to `end` will be needed soon. Reads them, in large pieces, from the file system,
  /// until `stop` is asked for or that fails.
  void fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const;

 private:
  /// The file that was opened, and its state then.
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

}  // namespace carillon
