// uniform: a random float64 of a range.
#pragma once

#include <cstdint>

#include "carillon/core/philox.h"

namespace carillon {

/// Uniform in [low, high), with 53 random bits.
inline double uniform(PhiloxDraws& draws, double low, double high) {
  const std::uint64_t high_word = draws.word(), low_word = draws.word();  // in this order
  const std::uint64_t bits = high_word << 21 ^ low_word >> 11;
  return low + (high - low) * static_cast<double>(bits) * 0x1p-53;
}

}  // namespace carillon
