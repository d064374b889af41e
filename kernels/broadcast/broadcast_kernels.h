// The kernels of broadcast on a GPU: a thread for each element of y, or of the gradient of an operand.
#pragma once

#include <cstdint>

#include "kernels/broadcast/broadcast_axes.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16. multiplies: y = a b; otherwise y = a + b.
template <typename T, bool multiplies>
struct BroadcastForward {
  BroadcastAxes axes;
  std::int64_t a_size = 0, b_size = 0, y_size = 0;  ///< elements of a sample
  const T *a = nullptr, *b = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / y_size;
    const BroadcastPlace place = place_of(axes, i - sample * y_size);
    const float first = to_float(a[sample * a_size + place.a]), second = to_float(b[sample * b_size + place.b]);
    y[i] = stored_as<T>(multiplies ? first * second : first + second);
  }
};

/// The gradient of operand a. multiplies: the terms are dy b; otherwise dy. The sum has the order of y's elements.
template <typename T, bool multiplies>
struct BroadcastGradient {
  GradientAxes axes;
  std::int64_t a_size = 0, b_size = 0, y_size = 0;  ///< elements of a sample
  std::int64_t summed_count = 1;                    ///< elements of y for each element of a
  const T *dy = nullptr, *b = nullptr;
  T* da = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / a_size;
    const BroadcastPlace first = place_of(axes.kept, i - sample * a_size);
    const T *const from = dy + sample * y_size + first.y, *const by = b + sample * b_size + first.b;
    float sum = 0.0f;
    for (std::int64_t k = 0; k < summed_count; ++k) {
      const BroadcastPlace place = place_of(axes.summed, k);
      const float term = to_float(from[place.y]);
      sum += multiplies ? term * to_float(by[place.b]) : term;
    }
    da[i] = stored_as<T>(sum);
  }
};

/// `a` is the operand with the gradient.
template <typename T, bool multiplies>
BroadcastGradient<T, multiplies> broadcast_gradient(const BroadcastAxes& axes, const Shape& a, const Shape& b,
                                                    const T* dy, const T* values_of_b, T* da) {
  BroadcastGradient<T, multiplies> kernel{.axes = gradient_axes(axes),
                                          .a_size = a.elements_per_sample(),
                                          .b_size = b.elements_per_sample(),
                                          .y_size = axes.elements(),
                                          .dy = dy,
                                          .b = values_of_b,
                                          .da = da};
  kernel.summed_count = kernel.axes.summed.elements();
  return kernel;
}

}  // namespace carillon
