// The sparse matrix by which gather multiplies, and the GPU kernel of gather. Each thread of the kernel computes one
// element of the result. Forward and backward use the same kernel. The matrix of backward is the transpose of the
// matrix of forward.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// A sparse matrix [rows, columns] that multiplies one axis of a tensor. Row r has the terms offsets[r] to
/// offsets[r + 1] - 1.
struct WeightedRows {
  std::int64_t rows = 0, columns = 0;
  std::int64_t inner = 1;  ///< product of the extents after the axis
  std::vector<std::int32_t> offsets, indices;
  std::vector<float> weights;  ///< for each term
};

/// to[o, r, e] = sum over the terms of row r of weight from[o, index, e]. from: [outer, columns, inner], to: [outer,
/// rows, inner]. T: float or Bf16.
template <typename T>
struct AddWeightedRows {
  std::int64_t rows = 0, columns = 0, inner = 1;
  const std::int32_t *offsets = nullptr, *indices = nullptr;
  const float* weights = nullptr;
  const T* from = nullptr;
  T* to = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t vector = i / inner, element = i - vector * inner, outer = vector / rows;
    const std::int64_t row = vector - outer * rows;
    const T* const own = from + outer * columns * inner + element;
    float sum = 0.0f;
    for (std::int32_t term = offsets[row]; term < offsets[row + 1]; ++term) {
      sum += weights[term] * to_float(own[indices[term] * inner]);
    }
    to[i] = stored_as<T>(sum);
  }
};

}  // namespace carillon
