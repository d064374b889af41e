// The arithmetic of lrn for one element, on CPU and GPU.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"

namespace carillon {

/// Powers of s = bias + alpha * (sum of squares in the window).
struct LrnPowers {
  float scale;    ///< s^-beta
  float inverse;  ///< 1 / s
};

/// s^-1/2; on a GPU with an error of two units in the last place.
CARILLON_HOST_DEVICE inline float inverse_root(float s) {
#ifdef __CUDA_ARCH__
  return rsqrtf(s);
#else
  return 1.0f / std::sqrt(s);
#endif
}

/// `three_quarters`: beta is 0.75, computed as s^-1/2 * sqrt(s^-1/2).
template <bool three_quarters>
CARILLON_HOST_DEVICE inline LrnPowers lrn_powers(float s, float beta) {
  if constexpr (three_quarters) {
    const float root = inverse_root(s);
    return {root * std::sqrt(root), root * root};
  } else {
    return {std::pow(s, -beta), 1.0f / s};
  }
}

/// first[0] + ... + first[2 radius].
template <int radius>
CARILLON_HOST_DEVICE inline float lrn_window_sum(const float* first) {
  float sum = first[0];
  for (int i = 1; i <= 2 * radius; ++i) sum += first[i];
  return sum;
}

}  // namespace carillon
