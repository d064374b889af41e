// The kernels of mean on a GPU: a thread for each element of y, or of dx. The mean is the gradient of a broadcast: y is
// operand a, and x is the broadcast result.
#pragma once

#include <cstdint>

#include "kernels/broadcast/broadcast_axes.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct MeanForward {
  GradientAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< elements of a sample
  std::int64_t count = 1;               ///< elements of x for each element of y
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / y_size;
    const T* const from = x + sample * x_size + place_of(axes.kept, i - sample * y_size).y;
    float sum = 0.0f;
    for (std::int64_t k = 0; k < count; ++k) sum += to_float(from[place_of(axes.summed, k).y]);
    y[i] = stored_as<T>(sum / static_cast<float>(count));
  }
};

/// T: float or Bf16.
template <typename T>
struct MeanBackward {
  BroadcastAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< elements of a sample
  float factor = 1.0f;
  const T* dy = nullptr;
  T* dx = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / x_size;
    const std::int64_t place = sample * y_size + place_of(axes, i - sample * x_size).a;
    dx[i] = stored_as<T>(to_float(dy[place]) * factor);
  }
};

/// `kept`: the shape of y with all axes.
template <typename T>
MeanForward<T> mean_forward(const Shape& kept, const Shape& x, const T* values, T* y) {
  const GradientAxes axes = gradient_axes(broadcast_axes(kept, x));
  return {axes, x.elements_per_sample(), kept.elements_per_sample(), axes.summed.elements(), values, y};
}
template <typename T>
MeanBackward<T> mean_backward(const Shape& kept, const Shape& x, const T* dy, T* dx) {
  const std::int64_t x_size = x.elements_per_sample(), y_size = kept.elements_per_sample();
  const float factor = 1.0f / static_cast<float>(x_size / y_size);
  return {broadcast_axes(kept, x), x_size, y_size, factor, dy, dx};
}

}  // namespace carillon
