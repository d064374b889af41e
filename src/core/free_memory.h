// free_memory: gives the memory of a vector back.
#pragma once

#include <cstddef>
#include <vector>

namespace carillon {

/// Empties the vector and frees its memory. `values = {}` and `values.clear()` keep it.
template <typename T>
void free_memory(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

/// Frees the memory if it is large, so that a thread does not keep that of a single large picture.
template <typename T>
void free_if_large(std::vector<T>& values) {
  constexpr std::size_t kept_bytes = std::size_t{64} << 20;
  if (values.size() * sizeof(T) > kept_bytes) free_memory(values);
}

}  // namespace carillon
