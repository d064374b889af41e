// The kernel of transpose on a GPU: a thread for each pack of n elements of y. If n > 1, n divides the last extent, and
// the elements are neighbours in x, too.
#pragma once

#include <cstdint>

#include "kernels/shared/pack.h"
#include "kernels/transpose/transpose_axes.h"

namespace carillon {

/// T: float or Bf16.
template <typename T, int n>
struct Transpose {
  TransposeAxes axes;
  std::int64_t size = 0;  ///< elements of a sample
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / size;
    store(load<n>(x + sample * size + original_place(axes, i - sample * size)), y + i);
  }
};

}  // namespace carillon
