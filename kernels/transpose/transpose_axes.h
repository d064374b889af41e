// TransposeAxes: where an element of a transposed sample is in the original sample. For the CPU loop and the CUDA
// kernel.
//
// Axes that stay neighbours are one axis, and axes of extent 1 are omitted.
#pragma once

#include <cstdint>
#include <span>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"

namespace carillon {

/// An axis of the result. `stride`: of the original, in elements.
struct TransposeAxis {
  std::int64_t extent = 1, stride = 1;
};

struct TransposeAxes {
  static constexpr int max_count = 6;

  TransposeAxis at[max_count];  ///< outermost first
  int count = 0;
};

/// The position in the original sample of element `i` of the transposed sample.
CARILLON_HOST_DEVICE inline std::int64_t original_place(const TransposeAxes& axes, std::int64_t i) {
  std::int64_t place = 0;
  for (int k = axes.count; k-- > 0;) {
    const std::int64_t rest = i / axes.at[k].extent;
    place += (i - rest * axes.at[k].extent) * axes.at[k].stride;
    i = rest;
  }
  return place;
}

/// At least one axis. `axes`: a permutation of the axes of x that starts with 0. Errors: failed (more axes than
/// max_count).
TransposeAxes transpose_axes(const Shape& x, std::span<const std::int64_t> axes);

}  // namespace carillon
