// The arithmetic of layer_norm for one row, on CPU and GPU.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"

namespace carillon {

/// The normalisation of a row, kept from forward to backward. `centre` is the rounded mean, and `shift` corrects it.
struct RowNorm {
  float centre, inverse, shift;

  /// xhat of an element, from its distance to the centre. T: float, or a vector of floats.
  template <typename T>
  CARILLON_HOST_DEVICE T at(T from_centre) const {
    return from_centre * inverse + shift;
  }
};

/// Computes the normalisation from the sum of the distances to `centre` and the sum of their squares over `channels`
/// elements.
CARILLON_HOST_DEVICE inline RowNorm row_norm(float centre, float distances, float squares, float channels,
                                             float epsilon) {
  const float rest = distances / channels, variance = squares / channels - rest * rest;
  const float inverse = 1.0f / std::sqrt((variance < 0.0f ? 0.0f : variance) + epsilon);  // NaN stays NaN
  return {centre, inverse, -rest * inverse};
}

/// The means over a row of g and of g xhat (layer_norm.h).
struct RowGradient {
  float mean, slope;
};

}  // namespace carillon
