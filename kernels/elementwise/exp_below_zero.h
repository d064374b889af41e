// exp_below_zero: exp of numbers up to 0. The function has no branches and no calls, so that compilers vectorise it on
// every device.
#pragma once

#include <cstdint>
#include <cstring>

#include "carillon/core/host_device.h"

namespace carillon {

CARILLON_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
CARILLON_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value = 0.0f;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
CARILLON_HOST_DEVICE inline float magnitude_of(float value) { return float_of(bits_of(value) & 0x7fffffffu); }

/// Returns exp(x + low) for x from -86 to 0 and |low| much smaller than 1, with a relative error of 1e-7. The result is
/// unspecified for x below -86.
CARILLON_HOST_DEVICE inline float exp_below_zero(float x, float low = 0.0f) {
  constexpr float to_integer = 0x1.8p23f;  // after this number is added, the lowest bits contain an integer
  constexpr float log2_of_e = 1.44269504f;
  constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;  // the product power * ln2_high is exact
  const float shifted = x * log2_of_e + to_integer, power = shifted - to_integer;
  const float r = (x - power * ln2_high) - power * ln2_low + low;  // |r| <= ln(2) / 2
  float p = 1.3937184e-3f;
  p = p * r + 8.3655370e-3f;
  p = p * r + 4.1666433e-2f;
  p = p * r + 1.6666563e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  return float_of(bits_of(p) + (bits_of(shifted) << 23));
}

}  // namespace carillon
