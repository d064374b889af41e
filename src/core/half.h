// Half: IEEE 754 binary16. Storage only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace carillon {

/// The value of a float16 with these bits. Exact; a NaN stays a NaN.
inline float float_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);  // subnormal
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

}  // namespace carillon
