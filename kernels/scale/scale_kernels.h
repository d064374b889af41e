// The kernel of scale on a GPU: a thread an element.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// y = factor * x, which may be the same memory. T: float or Bf16.
template <typename T>
struct ScaleElement {
  float factor = 1.0f;
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = stored_as<T>(factor * to_float(x[i])); }
};

}  // namespace carillon
