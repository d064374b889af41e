// The arithmetic of attention for one element, on CPU and GPU.
#pragma once

#include "kernels/elementwise/exp_below_zero.h"

namespace carillon {

/// The numbers that forward keeps for each row of scores, for backward.
struct AttentionRow {
  float largest;      ///< score, before it is scaled
  float inverse_sum;  ///< 1 / sum of the row's weights
};

/// The weight of a score: exp((score - largest) * scale), or 0 below exp(-86). NaN if the difference of the scores is
/// not finite.
CARILLON_HOST_DEVICE inline float attention_weight(float score, float largest, float scale) {
  const float x = (score - largest) * scale;
  return (x < -86.0f ? 0.0f : exp_below_zero(x)) + (x - x);
}

}  // namespace carillon
