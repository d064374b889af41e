// Bf16: bfloat16, the upper half of a float32: 8 exponent bits, 8 bits of precision. The type only stores values;
// arithmetic converts them to float32.
#pragma once

#include <cstdint>
#include <cstring>

#include "carillon/core/host_device.h"

namespace carillon {

struct Bf16 {
  std::uint16_t bits = 0;
};

CARILLON_HOST_DEVICE inline float to_float(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result = 0.0f;
  memcpy(&result, &bits, sizeof(result));
  return result;
}
CARILLON_HOST_DEVICE inline float to_float(float value) { return value; }

/// Rounds to the nearest value. If two values are equally near, chooses the even one. A NaN stays a NaN.
CARILLON_HOST_DEVICE inline Bf16 to_bf16(float value) {
#ifdef __CUDA_ARCH__
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
  // The function has no branch, so that the compiler can vectorise loops that call it.
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
#endif
}

/// Converts `value` to T (float or Bf16).
template <typename T>
CARILLON_HOST_DEVICE inline T stored_as(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return to_bf16(value);
  }
}

}  // namespace carillon
