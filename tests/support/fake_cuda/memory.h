// The fake's memory: device memory, which the host must not access, and page-locked host memory.
#pragma once

#include <cstddef>
#include <map>

namespace fake_cuda {

enum class Place { device, pinned, pageable };

class DeviceMemory {
 public:
  /// While at least one object of this class exists, device memory can be accessed. Kernels and copies create one.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

  /// Allocates memory that is aligned to 256 bytes. Its first 4 MiB are filled with 0xff; the rest contains zeros.
  void* allocate(std::size_t bytes, int device);
  void release(void* pointer);

  /// Returns whether `pointer` is in device memory. If `pointer` is in device memory, but [pointer, pointer + bytes) is
  /// not in one block of this thread's current device, ends the process (misuse).
  bool holds(const void* pointer, std::size_t bytes) const;
  /// Returns whether `address` is in a block or in its guard pages.
  bool is_near(const void* address) const;
  std::size_t used_bytes(int device) const;
  std::size_t block_count() const { return blocks_.size(); }

 private:
  struct Block {
    std::size_t bytes = 0;
    int device = 0;
    std::byte* mapping = nullptr;  ///< one guard page, the block's pages, one guard page
    std::size_t mapping_bytes = 0;
  };
  static void protect(const Block& block, int protection);
  const std::pair<const std::byte* const, Block>* block_of(const void* pointer) const;

  std::map<const std::byte*, Block> blocks_;
  int accesses_ = 0;
};

/// The page-locked host memory: memory that was allocated as page-locked, and memory that was page-locked later.
class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  void release(void* pointer);
  bool add(const void* pointer, std::size_t bytes);
  bool remove(const void* pointer);
  /// Returns whether `pointer` is in page-locked memory. If `pointer` is in page-locked memory, but [pointer, pointer +
  /// bytes) is not in one block, ends the process (misuse).
  bool holds(const void* pointer, std::size_t bytes) const;
  std::size_t block_count() const { return blocks_.size(); }

 private:
  std::map<const std::byte*, std::size_t> blocks_;  ///< size of each block in bytes
};

DeviceMemory& device_memory();
PinnedMemory& pinned_memory();

/// Returns to which kind of memory [pointer, pointer + bytes) belongs.
Place place_of(const void* pointer, std::size_t bytes);

/// Sets `bytes` bytes of device memory to `value`. Setting a large range to 0 costs nearly no time, because the range's
/// pages are returned to the system.
void fill(void* pointer, int value, std::size_t bytes);

}  // namespace fake_cuda
