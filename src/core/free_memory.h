// free_memory: gives the memory of a vector back.
#pragma once

#include <vector>

namespace carillon {

/// Empties the vector and frees its memory. `values = {}` and `values.clear()` keep it.
template <typename T>
void free_memory(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

}  // namespace carillon
