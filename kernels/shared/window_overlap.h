// Which windows contain which input positions, along one axis; for CPU ops and CUDA kernels.
#pragma once

#include "carillon/core/host_device.h"

namespace carillon {

/// Indices [first, last).
template <typename Int>
struct Interval {
  Int first, last;
};

/// The offsets in window number `output` that are inside the input. `Axis`: SlidingWindow or PackedPool::Axis.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> offsets_inside(const Axis& axis, Int output) {
  const Int start = output * axis.stride - axis.before, left = axis.input - start;
  return {start < 0 ? -start : 0, left < axis.window ? left : axis.window};
}

/// The windows that contain `position` of the input.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> windows_over(const Axis& axis, Int position) {
  const Int padded = position + axis.before, end = padded / axis.stride + 1;
  return {padded < axis.window ? 0 : (padded - axis.window) / axis.stride + 1, end < axis.output ? end : axis.output};
}

/// The reciprocal of the number of positions of a window that are inside the input. `rows`, `columns`: results of
/// offsets_inside.
template <typename Int>
CARILLON_HOST_DEVICE inline float share_of_each(const Interval<Int>& rows, const Interval<Int>& columns) {
  return 1.0f / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
}

}  // namespace carillon
