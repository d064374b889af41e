#include "kernels/shared/avx512_bf16_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace carillon {

/// Only these functions are compiled for AVX512-BF16.
#define CARILLON_WITH_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace {

constexpr int rows = 16, pairs = 16, columns = 16;

/// Adds two products of each of four rows of a left tile to their sums of 16 columns. `stride`: bytes from row to row.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) void add_four_rows(const std::byte* left, long stride,
                                                                                   long three_strides, __m512bh right,
                                                                                   __m512* sums) {
  const std::byte* const of_row[] = {left, left + stride, left + 2 * stride, left + three_strides};
#pragma GCC unroll 4
  for (int row = 0; row < 4; ++row) {
    std::int32_t both;
    std::memcpy(&both, of_row[row], sizeof(both));
    __m512i of_all_columns = _mm512_set1_epi32(both);
    asm("" : "+v"(of_all_columns));  // Clang 16 crashes if it may merge the load, the broadcast and the product
    sums[row] = _mm512_dpbf16_ps(sums[row], right, (__m512bh)of_all_columns);
  }
}

/// The products of one left tile with a right tile.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) void add_tile(const Bf16* left,
                                                                              std::int64_t row_elements,
                                                                              const Bf16* right, __m512* sums) {
  long stride = row_elements * 2, three_strides = 3 * stride;
  const std::byte* first = reinterpret_cast<const std::byte*>(left);
  const std::byte *second = first + 4 * stride, *third = first + 8 * stride, *last = first + 12 * stride;
  // Without this line, GCC keeps a pointer to each of the 16 rows, for which it has not enough registers.
  asm("" : "+r"(first), "+r"(second), "+r"(third), "+r"(last), "+r"(stride), "+r"(three_strides));
  for (int pair = 0; pair < pairs; ++pair) {
    const __m512bh of_columns = (__m512bh)_mm512_loadu_si512(right + pair * 2 * columns);
    add_four_rows(first + 4 * pair, stride, three_strides, of_columns, sums);
    add_four_rows(second + 4 * pair, stride, three_strides, of_columns, sums + 4);
    add_four_rows(third + 4 * pair, stride, three_strides, of_columns, sums + 8);
    add_four_rows(last + 4 * pair, stride, three_strides, of_columns, sums + 12);
  }
}

/// Adds the products of one left tile (number m of each step) from `step` to the end of the chain, with the sums in
/// registers. Returns the first step of the next chain.
CARILLON_WITH_AVX512_BF16 std::int64_t add_chain(const TileProduct& p, int m, std::int64_t step, bool overwrites) {
  const std::int64_t chain = avx512_bf16_chain(p.right_offsets[step]);
  __m512 sums[rows];
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) sums[row] = _mm512_setzero_ps();
  do {
    add_tile(p.left[step * p.count + m], p.left_stride, p.right + p.right_offsets[step], sums);
  } while (++step < p.steps && avx512_bf16_chain(p.right_offsets[step]) == chain);
  float* const to = p.sums + m * tile_sums;
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) {
    float* const at = to + row * columns;
    _mm512_storeu_ps(at, overwrites ? sums[row] : _mm512_add_ps(_mm512_loadu_ps(at), sums[row]));
  }
  return step;
}

}  // namespace

// One left tile at a time. The right tiles stay in the cache.
void multiply_avx512_bf16(const TileProduct& p) {
  if (p.steps == 0 && !p.add) std::fill_n(p.sums, p.count * tile_sums, 0.0f);
  for (int m = 0; m < p.count; ++m) {
    for (std::int64_t step = 0; step < p.steps;) step = add_chain(p, m, step, step == 0 && !p.add);
  }
}

CARILLON_WITH_AVX512_BF16 void write_rounded_avx512_bf16(const float* sums, const float* bias, bool relu,
                                                         const TileTarget<Bf16>& target) {
  const auto mask = static_cast<__mmask16>((1u << target.columns) - 1);
  const __m512 zero = _mm512_setzero_ps(), added = bias == nullptr ? zero : _mm512_maskz_loadu_ps(mask, bias);
  for (std::int64_t row = 0; row < target.count; ++row) {
    __m512 values = _mm512_add_ps(_mm512_loadu_ps(sums + row * columns), added);
    if (relu) values = _mm512_mask_mov_ps(values, _mm512_cmp_ps_mask(values, zero, _CMP_LT_OQ), zero);
    _mm256_mask_storeu_epi16(target.rows + row * target.stride, mask,
                             reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  }
}

}  // namespace carillon

#endif
