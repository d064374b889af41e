// The kernel of constant on a GPU: a thread for each element of y.
#pragma once

#include <cstdint>

#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct ConstantForward {
  const float* values = nullptr;  ///< [count]
  std::int64_t count = 1;         ///< elements of a sample, or 1
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = stored_as<T>(values[i % count]); }
};

}  // namespace carillon
