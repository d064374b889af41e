// First by a key: chooses samples, such as the largest errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace carillon {

/// The `count` of `indices` (all if there are fewer) with the smallest `key(index)`, in ascending order. Of equal keys,
/// the smaller index is first. Keys must not be NaN.
template <typename Key>
std::vector<std::size_t> first_by(std::vector<std::size_t> indices, std::size_t count, Key key) {
  const std::size_t kept = std::min(count, indices.size());
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(kept), indices.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double of_a = key(a), of_b = key(b);
                      return of_a != of_b ? of_a < of_b : a < b;
                    });
  indices.resize(kept);
  return indices;
}

}  // namespace carillon
