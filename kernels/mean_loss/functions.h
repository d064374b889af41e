// The losses of mean_loss, as functors: operator() is f, slope is its derivative by the output.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"
#include "kernels/mean_loss/mean_loss.h"

namespace carillon {

struct SigmoidCrossEntropy {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const {
    const float above_zero = z < 0.0f ? 0.0f : z;  // NaN stays NaN
    return above_zero - z * t + std::log1p(std::exp(-std::fabs(z)));
  }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float exponential = std::exp(-std::fabs(z));
    return (z < 0.0f ? exponential : 1.0f) / (1.0f + exponential) - t;
  }
};

struct SquaredError {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const { return (z - t) * (z - t); }
  CARILLON_HOST_DEVICE float slope(float z, float t) const { return 2.0f * (z - t); }
};

struct AbsoluteError {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const { return std::fabs(z - t); }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float error = z - t;
    return error > 0.0f ? 1.0f : error < 0.0f ? -1.0f : error;  // NaN stays NaN
  }
};

struct Huber {
  float delta = 1.0f;

  CARILLON_HOST_DEVICE float operator()(float z, float t) const {
    const float size = std::fabs(z - t);
    return size > delta ? delta * (size - 0.5f * delta) : 0.5f * size * size;
  }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float error = z - t;
    return error > delta ? delta : error < -delta ? -delta : error;
  }
};

/// Calls body(f) with the functor of these parameters.
template <typename Body>
auto with_loss_function(const MeanLossParams& params, const Body& body) {
  switch (params.kind) {
    case MeanLossKind::sigmoid_cross_entropy:
      return body(SigmoidCrossEntropy{});
    case MeanLossKind::squared_error:
      return body(SquaredError{});
    case MeanLossKind::absolute_error:
      return body(AbsoluteError{});
    default:
      return body(Huber{params.delta});
  }
}

}  // namespace carillon
