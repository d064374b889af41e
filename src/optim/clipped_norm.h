// The factor by which a step's gradient is clipped.
//
//   factor = min(1, limit / (norm + 1e-6))
//
// A norm that is not finite has factor 1, so only the variables with such gradients become non-finite. Source: PyTorch,
// clip_grad_norm_.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"

namespace carillon {

struct ClippedNorm {
  double norm = 0.0;  ///< before clipping
  float factor = 1.0f;
};

/// The factor of a step's gradient. `clipped`: in device memory; null: the gradient is not clipped.
CARILLON_HOST_DEVICE inline float clip_factor(const ClippedNorm* clipped) {
  return clipped == nullptr ? 1.0f : clipped->factor;
}

/// `squares`: the squared norm.
CARILLON_HOST_DEVICE inline ClippedNorm clipped_norm(double squares, double limit) {
  const double norm = std::sqrt(squares), factor = limit / (norm + 1e-6);
  return {norm, std::isfinite(norm) && factor < 1.0 ? static_cast<float>(factor) : 1.0f};
}

}  // namespace carillon
