// SparseProductKernels: the arithmetic of a product c = a b that skips zeros of a, for one instruction set; what loops
// over it is sparse_product.h.
//
//   c[r, j] = bias[j] + sum over steps s of a[r, s] b[s, j]      a: [rows, steps], b: [steps, columns]
//
// Rows are taken in blocks, and columns in panels, such that the sums of a block of a panel fill the registers; steps
// in pieces, of which a panel's share of b stays in a cache. Of a piece a block takes the steps in its list:
// those where a is not zero in any of its rows. A sum's order is that of the steps, whatever the lists hold.
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

/// A list for each block of rows and piece of steps: [block][piece].
struct StepLists {
  std::int32_t* steps;   ///< [block][piece][stride], ascending
  std::int32_t* counts;  ///< [block][piece]
  std::int64_t pieces;
  std::int64_t piece_steps;  ///< of a piece; the last one may have fewer
  std::int64_t stride;       ///< room of a list
};

struct SparseProduct {
  SparseMatrix a;
  StepLists lists;
  const float* b;     ///< [steps, columns]
  const float* bias;  ///< [columns], or null
  float* c;           ///< [rows, columns]
  std::int64_t columns;
  bool relu;  ///< c = max(c, 0), at the end
};

struct SparseProductKernels {
  /// Where blocks take at most this share of the steps, these kernels are faster than oneDNN's dense product.
  float max_share;
  int block_rows;
  int panel_columns;
  int max_piece_steps;  ///< such that a panel's share of b stays in the cache that the kernels count on
  int lanes;            ///< that `piece_steps` is a multiple of; as many numbers may be written behind a list's end

  /// The lists of blocks [first, last), of an `a` whose rows lie in one piece.
  void (*list_steps)(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists);
  /// The same, of an `a` whose steps lie in one piece.
  void (*list_steps_transposed)(const SparseMatrix& a, std::int64_t first, std::int64_t last, const StepLists& lists);
  /// c for blocks [first, last) of a panel, over all pieces.
  void (*multiply)(const SparseProduct& product, std::int64_t panel, std::int64_t first, std::int64_t last);
};

const SparseProductKernels& sparse_product_kernels(Isa isa);

}  // namespace carillon
