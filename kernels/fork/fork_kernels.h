// The kernel of fork on a GPU: a thread an element.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// sum[i] += term[i]. T: float or Bf16.
template <typename T>
struct AddTo {
  T* sum = nullptr;
  const T* term = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    sum[i] = stored_as<T>(to_float(sum[i]) + to_float(term[i]));
  }
};

}  // namespace carillon
