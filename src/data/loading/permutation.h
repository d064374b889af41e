// Permutations of the sample orders, drawn with Philox4x32-10.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "carillon/core/philox.h"

namespace carillon {

/// Fisher-Yates shuffle, from the last element to the first.
inline void shuffle(std::span<std::uint32_t> numbers, PhiloxDraws& draws) {
  for (auto left = static_cast<std::uint32_t>(numbers.size()); left > 1; --left)
    std::swap(numbers[left - 1], numbers[draws.below(left)]);
}

/// 0, 1, ..., count - 1.
inline std::vector<std::uint32_t> first_numbers(std::uint64_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

}  // namespace carillon
