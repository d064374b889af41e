// The kernels of variable on a GPU: a thread for each element of y, or of w.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct VariableForward {
  const float* w = nullptr;
  std::int64_t size = 0;  ///< elements of w
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = stored_as<T>(w[i % size]); }
};

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
