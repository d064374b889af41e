// The kernels of constant and variable on a GPU. Each thread writes one element of y, or of dw.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// Sets y to the values, for each sample. T: float or Bf16.
template <typename T>
struct RepeatValues {
  const float* values = nullptr;  ///< [count]
  std::int64_t count = 1;         ///< number of elements of a sample, or 1
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = stored_as<T>(values[i % count]); }
};

/// Sets dw to the sum of dy over the samples.
template <typename T>
struct VariableBackward {
  const T* dy = nullptr;
  std::int64_t size = 0, batch = 0;
  float* dw = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0.0f;
    for (std::int64_t b = 0; b < batch; ++b) sum += to_float(dy[b * size + i]);
    dw[i] = sum;
  }
};

}  // namespace carillon
