// PageArray: growing byte array in one anonymous mapping, on huge pages if the kernel has them.
//
// It grows by moving page tables instead of bytes (mremap(2)). Untouched pages use no memory, so the peak memory is the
// array's size.
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

  /// Appends `bytes` zero bytes and returns their address, valid until the next append. Errors: failed (out of memory).
  std::uint8_t* append(std::size_t bytes);
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void grow(std::size_t capacity);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace carillon
