// The kernels of RowParts on a GPU. Each thread copies a pack of n neighbouring elements of one part. n divides the
// sizes and offsets of all parts.
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

/// part = a part of the whole. T: float or Bf16.
template <typename T, int n>
struct ReadPart {
  PartOfRows place;
  const T* whole = nullptr;
  T* part = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(load<n>(whole + place.place(pack * n)), part + pack * n);
  }
};

/// A part of the whole = part.
template <typename T, int n>
struct WritePart {
  PartOfRows place;
  const T* part = nullptr;  ///< null: 0
  T* whole = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(part == nullptr ? Pack<T, n>{} : load<n>(part + pack * n), whole + place.place(pack * n));
  }
};

}  // namespace carillon
