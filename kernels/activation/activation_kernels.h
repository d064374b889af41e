// The kernels of activations on a GPU: a thread a pack of n neighbouring elements.
#pragma once

#include <cstdint>

#include "kernels/activation/activation_math.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// T: float or Bf16.
template <typename T, int n, typename Activation>
struct ActivationForward {
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    Pack<float, n> values = load_floats<n>(x + i * n);
    for (int k = 0; k < n; ++k) values.at[k] = Activation::value(values.at[k]);
    store_floats(values, y + i * n);
  }
};

template <typename T, int n, typename Activation>
struct ActivationBackward {
  const T *x = nullptr, *dy = nullptr;
  T* dx = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const Pack<float, n> values = load_floats<n>(x + i * n);
    Pack<float, n> gradients = load_floats<n>(dy + i * n);
    for (int k = 0; k < n; ++k) gradients.at[k] = Activation::gradient(values.at[k], gradients.at[k]);
    store_floats(gradients, dx + i * n);
  }
};

}  // namespace carillon
