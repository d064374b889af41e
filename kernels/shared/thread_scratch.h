// ThreadScratch: memory for intermediate values of a CPU op, a piece for each thread, allocated once.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "carillon/device/device.h"

namespace carillon {

class ThreadScratch {
 public:
  /// Zeroed memory of at least `bytes_per_thread` for each thread that parallel regions have now. No two threads'
  /// pieces share a cache line.
  ThreadScratch(Device& device, std::size_t bytes_per_thread)
      : thread_count_(static_cast<std::size_t>(omp_get_max_threads())),
        stride_((bytes_per_thread + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes),
        buffer_(device.allocate(thread_count_ * stride_)) {}

  /// The calling thread's piece, aligned to `tensor_alignment_bytes`.
  template <typename T>
  T* mine() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(buffer_.data()) +
                                static_cast<std::size_t>(omp_get_thread_num()) * stride_);
  }

  /// The grain for parallel_ranges over `count` elements that is at least `least` and never wants more threads than
  /// there are pieces.
  std::size_t grain(std::size_t count, std::size_t least) const {
    return std::max(least, (count + thread_count_ - 1) / thread_count_);
  }

 private:
  std::size_t thread_count_, stride_;
  Buffer buffer_;
};

}  // namespace carillon
