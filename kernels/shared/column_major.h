// Row-major matrix products in the terms of a column-major library (cuBLAS).
//
//   The memory of a row-major matrix [rows, columns] is that of its transpose in column-major order. So C = A B in
//   row-major order is C^T = B^T A^T in column-major order on the same memory: the operands change places.
#pragma once

#include <cstdint>

namespace carillon {

/// An operand of a row-major product, with its extents in the product. `transposed`: the memory contains the transpose
/// of the operand.
struct RowMajorMatrix {
  std::int64_t rows, columns;
  bool transposed = false;
  std::int64_t stride = 0;  ///< elements from a row in memory to the next; 0: the rows are contiguous
};

/// A column-major matrix in memory: element (r, c) is at r + c * leading_dimension. `transposed`: the product uses its
/// transpose.
struct ColumnMajorMatrix {
  std::int64_t rows, columns, leading_dimension;
  bool transposed = false;
  bool operator==(const ColumnMajorMatrix&) const = default;
};

/// The transpose of `matrix` in column-major order.
constexpr ColumnMajorMatrix column_major(const RowMajorMatrix& matrix) {
  const std::int64_t row = matrix.transposed ? matrix.rows : matrix.columns;  // elements of a row in memory
  const std::int64_t leading_dimension = matrix.stride > 0 ? matrix.stride : row;
  if (matrix.transposed) return {matrix.rows, matrix.columns, leading_dimension, true};
  return {matrix.columns, matrix.rows, leading_dimension, false};
}

}  // namespace carillon
