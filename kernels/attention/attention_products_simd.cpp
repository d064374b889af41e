// AttentionProducts for one instruction set. The products use the same loops over blocks as Winograd's products.
#include "kernels/attention/attention_products.h"
#include "kernels/conv2d/winograd_product.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

void multiply(const AttentionProduct& product) {
  const std::int64_t columns = (product.columns + lanes - 1) / lanes * lanes;
  const std::int64_t pieces = (product.depth + max_depth - 1) / max_depth;
  for_panels(
      columns, [&](std::int64_t column, auto vectors) __attribute__((always_inline)) {
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
          const std::int64_t first = product.depth * piece / pieces, last = product.depth * (piece + 1) / pieces;
          for_row_blocks(
              0, product.rows, [&](std::int64_t row, std::int64_t rows) __attribute__((always_inline)) {
                run_rows<decltype(vectors)::value>(rows, {.a = product.a + row * product.a_row + first * product.a_step,
                                                          .a_row = product.a_row,
                                                          .a_step = product.a_step,
                                                          .b = product.b + first * product.b_row + column,
                                                          .b_step = product.b_row,
                                                          .b_next = 0,  // b is already in the second-level cache
                                                          .c = product.c + row * product.c_row + column,
                                                          .c_row = product.c_row,
                                                          .depth = last - first,
                                                          .add = product.add || piece > 0});
              });
        }
      });
}

CARILLON_INLINE Quad load_four(const float* from) {
  Quad values;
  __builtin_memcpy(&values, from, sizeof(values));
  return values;
}

/// Transposes a block of four rows and four columns.
CARILLON_INLINE void transpose_square(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
  const Quad a = load_four(from), b = load_four(from + from_row);
  const Quad c = load_four(from + 2 * from_row), d = load_four(from + 3 * from_row);
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(to + to_row, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(to + 2 * to_row, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(to + 3 * to_row, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

void transpose(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, float* to,
               std::int64_t to_row) {
  const std::int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (std::int64_t r = 0; r < whole_rows; r += 4) {
    for (std::int64_t c = 0; c < whole_columns; c += 4) {
      transpose_square(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_row + r] = from[r * from_row + c];
  }
}

constexpr AttentionProducts products{.multiply = multiply, .transpose = transpose};

}  // namespace

const AttentionProducts* attention_products() { return &products; }

}  // namespace carillon::CARILLON_ISA
