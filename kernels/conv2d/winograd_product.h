// The matrix products of Winograd's convolutions for one instruction set, in blocks with accumulators that fill the
// registers. For *_simd.cpp.
#pragma once

#include "kernels/conv2d/winograd_tile.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {

/// Largest number of rows in a block of a product. If each row has two vectors, the accumulators of this number of rows
/// fill almost all registers.
constexpr int max_rows = lanes == 16 ? 12 : lanes == 8 ? 6 : 4;
constexpr int panel_vectors = 2, panel = panel_vectors * lanes;
/// The number of channels that a block multiplies at a time. It is so small that a panel's part of U stays in the
/// first-level cache.
constexpr std::int64_t max_depth = 256;

/// Divides [first, last) into almost equal blocks of at most max_rows rows. Calls body(first, rows) for each block.
template <typename Body>
CARILLON_INLINE void for_row_blocks(std::int64_t first, std::int64_t last, const Body& body) {
  const std::int64_t count = last - first, blocks = (count + max_rows - 1) / max_rows;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = first + count * i / blocks, end = first + count * (i + 1) / blocks;
    body(begin, end - begin);
  }
}

/// Divides `columns` into panels of two vectors. Calls body(first, Constant<vectors>) for each panel. The last panel
/// may have only one vector.
template <typename Body>
CARILLON_INLINE void for_panels(std::int64_t columns, const Body& body) {
  std::int64_t at = 0;
  for (; at + panel <= columns; at += panel) body(at, Constant<panel_vectors>{});
  if (at < columns) body(at, Constant<1>{});
}

template <int rows, int vectors>
struct Accumulators {
  Floats at[rows][vectors];

  CARILLON_INLINE void clear() {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { at[r.value][v.value] = Floats{}; });
    });
  }
  /// Adds a[r * step] * b to each row r of the block.
  CARILLON_INLINE void add_outer_product(const float* a, std::int64_t step, const float* b) {
    Floats factors[vectors];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) { factors[v.value] = load(b + v.value * lanes); });
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      const Floats row = broadcast(a[r.value * step]);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        at[r.value][v.value] = fma(row, factors[v.value], at[r.value][v.value]);
      });
    });
  }
  /// Prefetches the rows of c, which add_from reads after all products.
  static CARILLON_INLINE void prefetch(const float* c, std::int64_t columns) {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        __builtin_prefetch(c + r.value * columns + v.value * lanes, 1);
      });
    });
  }
  CARILLON_INLINE void add_from(const float* c, std::int64_t columns) {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        at[r.value][v.value] += load(c + r.value * columns + v.value * lanes);
      });
    });
  }
  CARILLON_INLINE void store_to(float* c, std::int64_t columns) const {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        store(c + r.value * columns + v.value * lanes, at[r.value][v.value]);
      });
    });
  }
};

/// Computes a block of a product: sets c [rows, vectors] to the sum over `depth` steps of (a column of a) * (a row of
/// b). If `add` is true, adds the sum to c instead.
struct ProductBlock {
  const float* a;
  std::int64_t a_row, a_step;  ///< strides of a, from row to row and from step to step
  const float* b;
  std::int64_t b_step;
  std::int64_t b_next;  ///< offset from b to the rows that the next block reads; these rows are prefetched
  float* c;
  std::int64_t c_row;
  std::int64_t depth;
  bool add;
};

template <int rows, int vectors>
__attribute__((noinline)) void run_block(const ProductBlock& block) {
  Accumulators<rows, vectors> sums;
  sums.clear();
  const float *a = block.a, *b = block.b;
  const std::int64_t a_row = block.a_row, a_step = block.a_step, b_step = block.b_step, b_next = block.b_next;
  if (block.add) Accumulators<rows, vectors>::prefetch(block.c, block.c_row);
  for (std::int64_t k = 0; k < block.depth; ++k, a += a_step, b += b_step) {
    sums.add_outer_product(a, a_row, b);
    unroll<vectors>([&](auto v) __attribute__((always_inline)) { __builtin_prefetch(b + b_next + v.value * lanes); });
  }
  if (block.add) sums.add_from(block.c, block.c_row);
  sums.store_to(block.c, block.c_row);
}

/// Calls run_block for a number of rows that is known only at run time.
template <int vectors>
CARILLON_INLINE void run_rows(std::int64_t rows, const ProductBlock& block) {
  unroll<max_rows>([&](auto r) __attribute__((always_inline)) {
    if (rows == r.value + 1) run_block<r.value + 1, vectors>(block);
  });
}

}  // namespace carillon::CARILLON_ISA
