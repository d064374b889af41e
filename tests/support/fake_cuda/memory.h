// The fake's memory: device memory, which the host must not access, and page-locked host memory.
#pragma once

#include <cstddef>
#include <map>

namespace fake_cuda {

enum class Place { device, pinned, pageable };

class DeviceMemory {
 public:
  /// While an object of this class exists, kernels and copies may access device memory.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

  /// Allocates memory that is aligned to 256 bytes and filled with 0xff. In a large block, only the first part is
  /// filled; the rest contains zeros.
  void* allocate(std::size_t bytes, int device);
  void release(void* pointer);

  /// Whether `pointer` is in device memory. If so, [pointer, pointer + bytes) must be in one block of this thread's
  /// current device; otherwise it is misuse.
  bool holds(const void* pointer, std::size_t bytes) const;
  /// Whether `address` belongs to a block or its guard pages.
  bool is_near(const void* address) const;
  std::size_t used_bytes(int device) const;
  std::size_t block_count() const { return blocks_.size(); }

 private:
  struct Block {
    std::size_t bytes = 0;
    int device = 0;
    std::byte* mapping = nullptr;  ///< guard page, pages, guard page
    std::size_t mapping_bytes = 0;
  };
  static void protect(const Block& block, int protection);
  const std::pair<const std::byte* const, Block>* block_of(const void* pointer) const;

  std::map<const std::byte*, Block> blocks_;
  int accesses_ = 0;
};

/// Page-locked host memory: memory that was allocated as page-locked memory, or was page-locked later.
class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  void release(void* pointer);
  bool add(const void* pointer, std::size_t bytes);
  bool remove(const void* pointer);
  /// Whether `pointer` is in page-locked memory. If it is, the whole range must be in one block; otherwise the call is
  /// misuse.
  bool holds(const void* pointer, std::size_t bytes) const;
  std::size_t block_count() const { return blocks_.size(); }

 private:
  std::map<const std::byte*, std::size_t> blocks_;  ///< bytes
};

DeviceMemory& device_memory();
PinnedMemory& pinned_memory();

/// The kind of memory of [pointer, pointer + bytes).
Place place_of(const void* pointer, std::size_t bytes);

/// memset in device memory. Setting a large range to zero takes no time.
void fill(void* pointer, int value, std::size_t bytes);

}  // namespace fake_cuda
