// The kernel of pad and slice on a GPU: a thread for each element of y.
#pragma once

#include <cstdint>

#include "kernels/pad/pad_axes.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct PadForward {
  PadAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< elements of a sample
  T value = {};
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / y_size, place = source_place(axes, axes.count, i - sample * y_size);
    y[i] = place < 0 ? value : x[sample * x_size + place];
  }
};

}  // namespace carillon
