// Memory: how much this process can use, and freeing the memory of vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace carillon {

/// The memory that Linux reports as available, within the limits of the process: its control groups and its address
/// space (ulimit -v).
std::uint64_t available_memory_bytes();

/// All memory and swap space, used or not, within the limits of the process.
std::uint64_t total_memory_bytes();

/// Empties the vector and frees its memory. `values = {}` and `values.clear()` would keep the memory.
template <typename T>
void free_memory(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

/// Frees the memory of the vector if it is large. Otherwise a thread would keep the memory of a single large picture.
template <typename T>
void free_if_large(std::vector<T>& values) {
  constexpr std::size_t kept_bytes = std::size_t{64} << 20;
  if (values.size() * sizeof(T) > kept_bytes) free_memory(values);
}

}  // namespace carillon
