// The kernels of relu on a GPU: a thread an element.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct ReluForward {
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const float value = to_float(x[i]);
    y[i] = stored_as<T>(value < 0.0f ? 0.0f : value);  // NaN stays
  }
};

template <typename T>
struct ReluBackward {
  const T* y = nullptr;
  T* dx = nullptr;  ///< in place of dy

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    if (!(to_float(y[i]) > 0.0f)) dx[i] = stored_as<T>(0.0f);
  }
};

}  // namespace carillon
