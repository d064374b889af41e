// MappedFile: a regular file's bytes as memory, mapped for reading.
//
// No descriptor stays open, so thousands of files can be mapped under any descriptor limit. The file must not shrink
// while it is mapped.
#pragma once

#include <cstddef>
#include <span>
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

  /// A hint: all bytes will be read, in order. What of them is not in memory yet, the kernel then reads in large
  /// pieces, and keeps in large pages, which cost little to map.
  void expect_reading_through() const;
  /// A hint: the bytes before `end` will not be needed soon.
  void give_up(std::size_t end) const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace carillon
