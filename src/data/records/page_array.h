// PageArray: bytes appended at the end of one anonymous mapping, on huge pages where the kernel has them.
//
// It grows by moving page tables, not bytes (mremap(2)), and untouched pages take no memory, so its peak is its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carillon {

class PageArray {
 public:
  PageArray() = default;
  PageArray(const PageArray&) = delete;
  PageArray& operator=(const PageArray&) = delete;
  ~PageArray();

  /// Appends `bytes` zero bytes and returns where they are, until the next append. Errors: failed (no memory).
  std::uint8_t* append(std::size_t bytes);
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void grow(std::size_t capacity);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace carillon
