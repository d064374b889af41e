// SparseProductKernels: the arithmetic of a product c = a b that skips zeros of a, for one instruction set. The loops
// are in sparse_product.h.
//
//   c[r, j] = bias[j] + sum over steps s of a[r, s] b[s, j]      a: [rows, steps], b: [steps, columns]
//
// Rows are divided into blocks and columns into panels, so that the sums of a block and a panel fill the registers.
// Steps are divided into pieces, so that a panel's part of b stays in a cache. In each piece, a block processes the
// steps in its list: the steps at which a is not zero in at least one row of the block. Every sum adds in the order of
// the steps.
#pragma once

#include <cstdint>

#include "carillon/device/isa.h"

namespace carillon {

/// a[r, s] = data[r * row_stride + s * step_stride]; one of the strides is 1.
struct SparseMatrix {
  const float* data;
  std::int64_t rows, steps;
  std::int64_t row_stride, step_stride;
};

/// One list for each block of rows and piece of steps: [block][piece].
struct StepLists {
  std::int32_t* steps;   ///< [block][piece][stride], ascending
  std::int32_t* counts;  ///< [block][piece]
  std::int64_t pieces;
  std::int64_t piece_steps;  ///< number of steps per piece; the last piece may have fewer steps
  std::int64_t stride;       ///< capacity of a list
};

struct SparseProduct {
  SparseMatrix a;
  StepLists lists;
  const float* b;     ///< [steps, columns]
  const float* bias;  ///< [columns], or null
  float* c;           ///< [rows, columns]
  std::int64_t columns;
  bool relu;  ///< true: compute c = max(c, 0) at the end
};

struct SparseProductKernels {
  /// If blocks process at most this fraction of the steps, these kernels are faster than oneDNN's dense product.
  float max_share;
  int block_rows;
  int panel_columns;
  int max_piece_steps;  ///< limit that keeps a panel's part of b in the cache for which the kernels are designed
  int lanes;            ///< divides `piece_steps`; the kernels may write up to this number of values after a list's end

  /// Makes the lists of blocks [first, last), for an `a` with contiguous rows.
  void (*list_steps)(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists);
  /// Does the same as list_steps, but for an `a` in which the elements of a step are contiguous.
  void (*list_steps_transposed)(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists);
  /// Computes c for blocks [first, last) of a panel, over all pieces.
  void (*multiply)(const SparseProduct& product, std::int64_t panel, std::int64_t first, std::int64_t last);
};

const SparseProductKernels& sparse_product_kernels(Isa isa);

}  // namespace carillon
