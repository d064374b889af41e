// The kernel of split on a GPU. Each thread copies a pack of n neighbouring elements of one part. n divides the sizes
// and offsets of all parts.
#pragma once

#include <cstdint>

#include "kernels/shared/pack.h"

namespace carillon {

/// The place of a part of `size` elements in rows of `row_size` elements.
struct PartOfRows {
  std::int64_t row_size = 0, offset = 0, size = 0;

  /// The position in the rows of element i of the part.
  CARILLON_HOST_DEVICE std::int64_t place(std::int64_t i) const {
    const std::int64_t row = i / size;
    return row * row_size + offset + i - row * size;
  }
};

/// y = a part of x. T: float or Bf16.
template <typename T, int n>
struct SplitForward {
  PartOfRows part;
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(load<n>(x + part.place(pack * n)), y + pack * n);
  }
};

/// A part of dx = dy.
template <typename T, int n>
struct SplitBackward {
  PartOfRows part;
  const T* dy = nullptr;  ///< null: 0
  T* dx = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(dy == nullptr ? Pack<T, n>{} : load<n>(dy + pack * n), dx + part.place(pack * n));
  }
};

}  // namespace carillon
