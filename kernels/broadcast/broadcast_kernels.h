// BroadcastAxes: maps an element of the result of a broadcasting op to its operands, for the CPU loops and the GPU
// kernels. The kernels have one thread for each element of y, or of a gradient.
//
// The axes do not include the batch. Neighbouring axes that both operands read in the same way are merged, and axes of
// extent 1 are omitted. Therefore an operand has stride 1 or 0 on the last axis.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"
#include "src/core/bf16.h"

namespace carillon {

/// Strides count elements. A stride of 0 means that the operand is repeated along the axis.
struct BroadcastAxis {
  std::int64_t extent = 1, y = 0, a = 0, b = 0;
};

struct BroadcastAxes {
  static constexpr int max_count = 6;

  BroadcastAxis at[max_count];  ///< outermost first
  int count = 0;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= at[i].extent;
    return product;
  }
};

/// The positions of one element of the result in a sample of y, of a and of b.
struct BroadcastPlace {
  std::int64_t y = 0, a = 0, b = 0;
};

/// Returns the positions of element number `i`, counted along `axes`; the index of the last axis varies fastest.
CARILLON_HOST_DEVICE inline BroadcastPlace place_of(const BroadcastAxes& axes, std::int64_t i) {
  BroadcastPlace place;
  for (int k = axes.count; k-- > 0;) {
    const BroadcastAxis& axis = axes.at[k];
    const std::int64_t rest = i / axis.extent, index = i - rest * axis.extent;
    place.y += index * axis.y;
    place.a += index * axis.a;
    place.b += index * axis.b;
    i = rest;
  }
  return place;
}

/// Returns the shape of the result: [batch, ...]. Each axis has the larger of the two operands' extents. Axes after the
/// batch are matched from the last axis backwards. Errors: failed (two extents differ and neither is 1; the batches
/// differ; an operand is a scalar).
Shape broadcast_shape(const Shape& a, const Shape& b);

/// Returns at least one axis. Errors: the errors of broadcast_shape; failed (there are more axes than max_count).
BroadcastAxes broadcast_axes(const Shape& a, const Shape& b);

/// Returns the axes with the operands exchanged.
BroadcastAxes exchanged(BroadcastAxes axes);

/// For the gradient of operand a: the axes along which a has several elements, and the axes along which a is repeated.
struct GradientAxes {
  BroadcastAxes kept, summed;
};
GradientAxes gradient_axes(const BroadcastAxes& axes);

/// T: float or Bf16. y = a b if `multiplies` is true, otherwise y = a + b.
template <typename T, bool multiplies>
struct BroadcastForward {
  BroadcastAxes axes;
  std::int64_t a_size = 0, b_size = 0, y_size = 0;  ///< number of elements of a sample
  const T *a = nullptr, *b = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / y_size;
    const BroadcastPlace place = place_of(axes, i - sample * y_size);
    const float first = to_float(a[sample * a_size + place.a]), second = to_float(b[sample * b_size + place.b]);
    y[i] = stored_as<T>(multiplies ? first * second : first + second);
  }
};

/// The gradient of operand a. If `multiplies` is true, the terms are dy b, otherwise dy. The terms are added in the
/// order of y's elements.
template <typename T, bool multiplies>
struct BroadcastGradient {
  GradientAxes axes;
  std::int64_t a_size = 0, b_size = 0, y_size = 0;  ///< number of elements of a sample
  std::int64_t summed_count = 1;                    ///< number of elements of y for each element of a
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

/// Makes the kernel that computes the gradient of operand `a`.
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

/// y = the mean of x over some axes. The sums are the same as in the gradient of a broadcast from the shape of y to the
/// shape of x. T: float or Bf16.
template <typename T>
struct MeanForward {
  GradientAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< number of elements of a sample
  std::int64_t count = 1;               ///< number of elements of x for each element of y
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

/// dx = factor * dy, repeated along the averaged axes. T: float or Bf16.
template <typename T>
struct MeanBackward {
  BroadcastAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< number of elements of a sample
  float factor = 1.0f;
  const T* dy = nullptr;
  T* dx = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / x_size;
    const std::int64_t place = sample * y_size + place_of(axes, i - sample * x_size).a;
    dx[i] = stored_as<T>(to_float(dy[place]) * factor);
  }
};

/// `kept`: the shape that y has if each averaged axis stays with extent 1.
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
