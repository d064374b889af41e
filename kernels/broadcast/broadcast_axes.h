// BroadcastAxes: how an element of the result of a broadcasting op finds its operands. For the CPU loops and the CUDA
// kernels.
//
// The axes are those of one sample. Neighbouring axes that both operands read in the same way are one axis, and axes of
// extent 1 are omitted. So an operand has stride 1 or 0 on the last axis.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"

namespace carillon {

/// Strides are in elements. 0: the operand is repeated along the axis.
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

/// Positions of one element in a sample of each tensor.
struct BroadcastPlace {
  std::int64_t y = 0, a = 0, b = 0;
};

/// The place of element `i` of the elements that the axes count.
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

/// The shape of the result: [batch, ...] with the larger of both extents of each axis. Axes after the batch are matched
/// from the last one. Errors: failed (extents differ and neither is 1; different batches; a scalar).
Shape broadcast_shape(const Shape& a, const Shape& b);

/// At least one axis. Errors: as broadcast_shape; failed (more axes than max_count).
BroadcastAxes broadcast_axes(const Shape& a, const Shape& b);

/// The axes with the operands exchanged.
BroadcastAxes exchanged(BroadcastAxes axes);

/// For the gradient of operand a: the axes along which a has elements, and the axes along which it is repeated.
struct GradientAxes {
  BroadcastAxes kept, summed;
};
GradientAxes gradient_axes(const BroadcastAxes& axes);

}  // namespace carillon
