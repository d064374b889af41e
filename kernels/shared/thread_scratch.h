// ThreadScratch: scratch memory of a CPU op, one piece per thread, allocated once.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "carillon/device/device.h"

namespace carillon {

class ThreadScratch {
 public:
  /// Allocates zeroed memory of at least `bytes_per_thread` for each thread of a parallel region (omp_get_max_threads).
  /// The pieces share no cache lines.
  ThreadScratch(Device& device, std::size_t bytes_per_thread)
      : thread_count_(static_cast<std::size_t>(omp_get_max_threads())),
        stride_(aligned_bytes(bytes_per_thread)),
        buffer_(device.allocate(thread_count_ * stride_)) {}

  /// Returns the calling thread's piece, which is aligned to `tensor_alignment_bytes`.
  template <typename T>
  T* mine() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffer_.data()) +
                                static_cast<std::size_t>(omp_get_thread_num()) * stride_);
  }

  /// Returns a grain for parallel_ranges over `count` elements. The grain is at least `least`, and so large that
  /// parallel_ranges makes at most one range per piece. Without the third operand of `max`, rounding down could result
  /// in one more range.
  std::size_t grain(std::size_t count, std::size_t least) const {
    return std::max({least, count / thread_count_, thread_count_ + 2});
  }

 private:
  std::size_t thread_count_, stride_;
  Buffer buffer_;
};

}  // namespace carillon
