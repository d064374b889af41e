// The kernels of add on a GPU: a thread an element.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct AddForward {
  const T *a = nullptr, *b = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = stored_as<T>(to_float(a[i]) + to_float(b[i])); }
};

template <typename T>
struct AddBackward {
  const T* dy = nullptr;
  T* db = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { db[i] = dy[i]; }
};

}  // namespace carillon
