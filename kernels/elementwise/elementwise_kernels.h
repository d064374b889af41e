// The CUDA kernel of all element-wise ops: each thread maps a pack of n neighbouring elements.
#pragma once

#include <cstdint>

#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// T: float or Bf16. `F`: one of ElementwiseFunction.
template <typename T, int n, typename F>
struct MapPack {
  F function;
  const T *a = nullptr, *b = nullptr;  ///< b: unused if F is unary
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    Pack<float, n> values = load_floats<n>(a + i * n);
    if constexpr (is_unary<F>) {
      for (int k = 0; k < n; ++k) values.at[k] = function(values.at[k]);
    } else {
      const Pack<float, n> second = load_floats<n>(b + i * n);
      for (int k = 0; k < n; ++k) values.at[k] = function(values.at[k], second.at[k]);
    }
    store_floats(values, y + i * n);
  }
};

}  // namespace carillon
