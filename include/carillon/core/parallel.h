// Loops over flat arrays, divided among the threads of a CPU device and vectorised for the processor.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace carillon {

/// Compiles a function for several instruction sets. The program selects one version of the function at its start, so
/// the build is portable.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CARILLON_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CARILLON_SIMD
#endif

/// Hint to the processor that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The part of [0, count) that belongs to thread number `thread` of `threads` threads.
struct ThreadShare {
  std::int64_t first, last;
  ThreadShare(std::int64_t count, int thread, int threads)
      : first(count * thread / threads), last(count * (thread + 1) / threads) {}
};

/// Calls body(begin, end) on ranges that cover [0, count), one per thread. Ranges start at multiples of 16 elements and
/// depend only on `count`, `grain` and the number of threads. If there are fewer than `grain` elements per thread, the
/// loop uses fewer threads.
template <typename Body>
void parallel_ranges(std::size_t count, std::size_t grain, const Body& body) {
  const std::size_t shares = std::clamp<std::size_t>(count / std::max<std::size_t>(grain, 1), 1,
                                                     static_cast<std::size_t>(omp_get_max_threads()));
  if (shares == 1) return body(std::size_t{0}, count);
  const std::size_t share = ((count + shares - 1) / shares + 15) / 16 * 16;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(shares))
  for (std::size_t i = 0; i < shares; ++i) {
    const std::size_t begin = std::min(i * share, count), end = std::min(begin + share, count);
    if (begin < end) body(begin, end);
  }
}

/// The grain, in floats, of loops that do little work per element. If a thread has fewer floats than this, starting it
/// takes more time than it saves.
inline constexpr std::size_t elementwise_grain = 16384;

/// Divides `count` items (rows, images) of `item_size` elements each among threads, as parallel_ranges does. Each
/// thread calls body(first, last) with the indices of its items. `grain` counts elements.
template <typename Body>
void parallel_items(std::size_t count, std::size_t item_size, std::size_t grain, const Body& body) {
  parallel_ranges(count * item_size, grain, [&](std::size_t begin, std::size_t end) {
    const std::size_t first = (begin + item_size - 1) / item_size, last = (end + item_size - 1) / item_size;
    if (first < last) body(first, last);  // calls `body` only for the items that begin in this range
  });
}

/// Calls body(begin, end) for each block of `block` elements of [0, count), on several threads. Blocks begin at
/// multiples of `block`; the last one may be shorter. `grain` counts elements.
template <typename Body>
void parallel_blocks(std::size_t count, std::size_t block, std::size_t grain, const Body& body) {
  parallel_items((count + block - 1) / block, block, grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) body(i * block, std::min((i + 1) * block, count));
  });
}

}  // namespace carillon
