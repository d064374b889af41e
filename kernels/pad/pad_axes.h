// PadAxes: which element of x an element of y is, for pad, slice and their gradients. For the CPU loop and the CUDA
// kernel.
//
// On each axis, element i of y is element (i * step + offset) / divisor of x, if this is an index of x. The gradient
// exchanges x and y. An axis whose elements are all copied is part of the axis before it.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"

namespace carillon {

struct PadAxis {
  std::int64_t x_extent = 1, y_extent = 1;
  std::int64_t step = 1, offset = 0;
  std::int64_t divisor = 1;  ///< above 0; 1 or step is 1 or -1

  /// The index in x of element `i` of y; -1: none.
  CARILLON_HOST_DEVICE std::int64_t source(std::int64_t i) const {
    const std::int64_t scaled = i * step + offset;
    if (scaled < 0) return -1;
    const std::int64_t index = divisor == 1 ? scaled : scaled / divisor;
    return index < x_extent && index * divisor == scaled ? index : -1;
  }
  bool copies_all() const { return x_extent == y_extent && step == 1 && offset == 0 && divisor == 1; }
};

struct PadAxes {
  static constexpr int max_count = 6;

  PadAxis at[max_count];  ///< of a sample, outermost first
  int count = 0;
};

/// The position in a sample of x of element `i` of a sample of y, which the first `count` axes have; -1: none.
CARILLON_HOST_DEVICE inline std::int64_t source_place(const PadAxes& axes, int count, std::int64_t i) {
  std::int64_t place = 0, stride = 1;
  bool exists = true;
  for (int k = count; k-- > 0;) {
    const PadAxis& axis = axes.at[k];
    const std::int64_t rest = i / axis.y_extent, index = axis.source(i - rest * axis.y_extent);
    exists = exists && index >= 0;
    place += index * stride;
    stride *= axis.x_extent;
    i = rest;
  }
  return exists ? place : -1;
}

/// At least one axis. Errors: failed (more axes than max_count; numbers that do not fit into 64 bits).
PadAxes pad_axes(const std::vector<PadAxis>& sample);

/// The axes of the gradient: from dy to dx.
PadAxes gradient_axes(PadAxes axes);

}  // namespace carillon
