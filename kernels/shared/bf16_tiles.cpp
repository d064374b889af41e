// Chooses the tile kernels for an instruction set. Also contains the products and conversions that use AVX512-BF16.
#include "kernels/shared/bf16_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "kernels/shared/backend.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const Bf16TileKernels* bf16_tile_kernels())

#if defined(__x86_64__)

/// Marks a function that is compiled for AVX512-BF16. All other functions are compiled without AVX512-BF16.
#define CARILLON_WITH_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace {

constexpr int rows = 16, pairs = 16, columns = 16;

/// For each row r of a left tile, adds left[r][k] * right[k][n] + left[r][k + 1] * right[k + 1][n] to column n of
/// sums[r]. `left` points to element k of the tile's first row. `right` holds rows k and k + 1 of a right tile.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) void add_pair(const Bf16* left, __m512bh right,
                                                                              __m512* sums) {
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) {
    std::int32_t both;
    std::memcpy(&both, left + row * tile_depth, sizeof(both));
    __m512i of_all_columns = _mm512_set1_epi32(both);
    asm("" : "+v"(of_all_columns));  // Clang 16 crashes if it may merge the load, the broadcast and the product
    sums[row] = _mm512_dpbf16_ps(sums[row], right, (__m512bh)of_all_columns);
  }
}

/// Adds the product of one left tile and one right tile to `sums`.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) void add_tile(const Bf16* left, const Bf16* right,
                                                                              __m512* sums) {
  for (int pair = 0; pair < pairs; ++pair) {
    add_pair(left + 2 * pair, (__m512bh)_mm512_loadu_si512(right + pair * 2 * columns), sums);
  }
}

/// Adds the products of left tile m of each step and one panel, from step `step` to the end of its chain. Keeps the
/// sums in registers. Returns the first step of the next chain.
CARILLON_WITH_AVX512_BF16 std::int64_t add_chain(const TileProduct& p, int m, int panel, std::int64_t step,
                                                 bool overwrites) {
  const Bf16* const right = p.right + panel * p.panel_stride;
  const std::int64_t chain = avx512_bf16_chain(p.right_offsets[step]);
  __m512 sums[rows];
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) sums[row] = _mm512_setzero_ps();
  do {
    add_tile(p.left[step * p.count + m], right + p.right_offsets[step], sums);
  } while (++step < p.steps && avx512_bf16_chain(p.right_offsets[step]) == chain);
  float* const to = p.sums + (m * p.panels + panel) * tile_sums;
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) {
    float* const at = to + row * columns;
    _mm512_storeu_ps(at, overwrites ? sums[row] : _mm512_add_ps(_mm512_loadu_ps(at), sums[row]));
  }
  return step;
}

/// Returns 16 sums plus `addend`. If `relu` is true, returns max(., 0) of the result.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) __m512 with_addend(const float* sums, __m512 addend,
                                                                                   bool relu) {
  const __m512 values = _mm512_add_ps(_mm512_loadu_ps(sums), addend), zero = _mm512_setzero_ps();
  return relu ? _mm512_mask_mov_ps(values, _mm512_cmp_ps_mask(values, zero, _CMP_LT_OQ), zero) : values;
}

typedef std::uint16_t Halves __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(64)));

/// Returns 16 bf16 values as floats.
CARILLON_WITH_AVX512_BF16 inline __attribute__((always_inline)) __m512 widened(__m256i values) {
  return (__m512)(__builtin_convertvector((Halves)values, Words) << 16);
}

}  // namespace

// Multiplies one left tile by one panel at a time. The right tiles stay in the cache.
void multiply_avx512_bf16(const TileProduct& p) {
  if (p.steps == 0 && !p.add) std::fill_n(p.sums, p.count * p.panels * tile_sums, 0.0f);
  for (int m = 0; m < p.count; ++m) {
    for (int panel = 0; panel < p.panels; ++panel) {
      for (std::int64_t step = 0; step < p.steps;) step = add_chain(p, m, panel, step, step == 0 && !p.add);
    }
  }
}

// Writes two panels together, because their 32 columns can fill a whole cache line.
CARILLON_WITH_AVX512_BF16 void write_rounded_avx512_bf16(const float* sums, const RoundedWrite& write,
                                                         const TileTarget<Bf16>& target) {
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << target.columns) - 1);
  const auto of_first = static_cast<__mmask16>(mask), of_second = static_cast<__mmask16>(mask >> columns);
  const bool non_temporal = write.non_temporal && mask == 0xffffffffu &&
                            (reinterpret_cast<std::uintptr_t>(target.rows) | target.stride * sizeof(Bf16)) % 64 == 0;
  __m512 first_addend = _mm512_setzero_ps(), second_addend = first_addend;
  if (write.bias != nullptr) {
    first_addend = _mm512_maskz_loadu_ps(of_first, write.bias);
    if (of_second != 0) second_addend = _mm512_maskz_loadu_ps(of_second, write.bias + columns);
  }
  for (std::int64_t row = 0; row < target.count; ++row, sums += columns) {
    Bf16* const to = target.rows + row * target.stride;
    if (write.accumulate) first_addend = widened(_mm256_maskz_loadu_epi16(of_first, to));
    const __m512 first = with_addend(sums, first_addend, write.relu);
    if (of_second == 0) {
      _mm256_mask_storeu_epi16(to, of_first, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first)));
      continue;
    }
    if (write.accumulate) second_addend = widened(_mm256_maskz_loadu_epi16(of_second, to + columns));
    const __m512 second = with_addend(sums + tile_sums, second_addend, write.relu);
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    if (non_temporal) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), both);
    } else {
      _mm512_mask_storeu_epi16(to, mask, both);
    }
  }
}

void complete_non_temporal_stores() { _mm_sfence(); }

namespace {

Bf16TileKernels with_avx512_bf16() {
  Bf16TileKernels kernels = *avx512::bf16_tile_kernels();
  kernels.multiply = multiply_avx512_bf16;
  kernels.write_rounded = write_rounded_avx512_bf16;
  kernels.end = complete_non_temporal_stores;
  return kernels;
}

Bf16TileKernels with_amx() {
  Bf16TileKernels kernels = with_avx512_bf16();
  kernels.begin = begin_amx_tiles;
  kernels.end = end_amx_tiles;
  kernels.multiply = multiply_amx_tiles;
  return kernels;
}

}  // namespace

#endif

const Bf16TileKernels& bf16_tile_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) {
    static const Bf16TileKernels amx = with_amx();
    return amx;
  }
  if (isa == Isa::avx512_bf16) {
    static const Bf16TileKernels avx512_bf16 = with_avx512_bf16();
    return avx512_bf16;
  }
#endif
  return *for_isa(
      isa, [] { return plain::bf16_tile_kernels(); }, [] { return avx2::bf16_tile_kernels(); },
      [] { return avx512::bf16_tile_kernels(); });
}

}  // namespace carillon
