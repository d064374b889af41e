// Bf16TileKernels without tile instructions. Processors with tile instructions also use the packing functions of this
// file.
#include "kernels/shared/bf16_tiles.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

typedef std::int32_t Ints __attribute__((vector_size(lanes * sizeof(std::int32_t))));
typedef std::uint32_t Words __attribute__((vector_size(lanes * sizeof(std::uint32_t))));
typedef std::uint16_t NarrowInts __attribute__((vector_size(lanes * sizeof(std::uint16_t))));
typedef std::uint16_t Halves __attribute__((vector_size(16 * sizeof(std::uint16_t))));
constexpr int columns_of_tile = 16, vectors = columns_of_tile / lanes;

/// Returns x, with denormals replaced by zeros of the same sign.
CARILLON_INLINE Floats flushed(Floats x) {
  const Ints bits = (Ints)x;
  const Ints is_small = (bits & 0x7f800000) == 0;
  return (Floats)(bits & ~(is_small & 0x7fffffff));
}

/// Computes a * b + c with one rounding, on every instruction set.
CARILLON_INLINE Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX2__)
  return fma(a, b, c);
#else
  Floats sum;
  for (int i = 0; i < lanes; ++i) sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return sum;
#endif
}

CARILLON_INLINE float widened(Bf16 value) {
  const std::uint32_t kept_bits = (value.bits & 0x7f80u) == 0 ? 0x8000u : 0xffffu;
  const std::uint32_t bits = (value.bits & kept_bits) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof(result));
  return result;
}

CARILLON_INLINE float widened(float value) { return value; }

/// A right tile as floats. Even rows and odd rows are separate.
struct WidenedTile {
  Floats even[16][vectors], odd[16][vectors];
};

CARILLON_INLINE void widen(const Bf16* tile, WidenedTile& wide) {
  for (int pair = 0; pair < 16; ++pair) {
    for (int v = 0; v < vectors; ++v) {
      Ints both;
      __builtin_memcpy(&both, tile + pair * 32 + v * lanes * 2, sizeof(both));
      wide.even[pair][v] = flushed((Floats)(both << 16));
      wide.odd[pair][v] = flushed((Floats)(both & static_cast<std::int32_t>(0xffff0000)));
    }
  }
}

CARILLON_INLINE void add_row(const Bf16* left, const WidenedTile& right, float* sums) {
  for (int v = 0; v < vectors; ++v) {
    Floats even = broadcast(0.0f), odd = even;
    for (int pair = 0; pair < 16; ++pair) {
      even = flushed(fused(broadcast(widened(left[2 * pair])), right.even[pair][v], even));
      odd = flushed(fused(broadcast(widened(left[2 * pair + 1])), right.odd[pair][v], odd));
    }
    float* const at = sums + v * lanes;
    store(at, flushed(flushed(load(at)) + flushed(even + odd)));
  }
}

void multiply(const TileProduct& p) {
  if (!p.add) {
    for (std::int64_t i = 0; i < p.count * p.panels * tile_sums; ++i) p.sums[i] = 0.0f;
  }
  WidenedTile right;
  for (std::int64_t step = 0; step < p.steps; ++step) {
    for (int panel = 0; panel < p.panels; ++panel) {
      widen(p.right + panel * p.panel_stride + p.right_offsets[step], right);
      for (int m = 0; m < p.count; ++m) {
        const Bf16* const left = p.left[step * p.count + m];
        float* const sums = p.sums + (m * p.panels + panel) * tile_sums;
        for (int row = 0; row < 16; ++row) add_row(left + row * tile_depth, right, sums + row * 16);
      }
    }
  }
}

/// Returns the same result as to_bf16 (src/core/bf16.h). This file has its own copy of that function; simd.h states the
/// reason.
CARILLON_INLINE std::uint32_t rounded_bits(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}
CARILLON_INLINE std::uint32_t rounded_bits(Bf16 value) { return value.bits; }

/// Packs a row of 32 elements: the first `count` elements of `from`, and then zeros.
template <typename T>
CARILLON_INLINE void pack_row(const T* from, std::int64_t count, Bf16* to) {
  if (count >= 32) {
    for (int i = 0; i < 32; ++i) to[i].bits = static_cast<std::uint16_t>(rounded_bits(from[i]));
    return;
  }
  for (std::int64_t i = 0; i < 32; ++i) to[i].bits = i < count ? static_cast<std::uint16_t>(rounded_bits(from[i])) : 0;
}
#if defined(__AVX512BW__)
CARILLON_INLINE void pack_row(const Bf16* from, std::int64_t count, Bf16* to) {
  const __mmask32 mask = count >= 32 ? 0xffffffffu : (1u << count) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
}
#endif

template <typename T>
void pack_left(const TileSource<T>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride) {
  for (std::int64_t first = 0; first < columns; first += 32, to += tile_stride) {
    for (std::int64_t row = 0; row < 16; ++row) {
      const bool exists = row < source.count;
      pack_row(exists ? source.rows + row * source.stride + first : nullptr, exists ? columns - first : 0,
               to + row * 32);
    }
  }
}

/// Interleaves rows i and i + 4 of 8 rows, separately in each half of 8 columns. Three calls transpose each half.
CARILLON_INLINE void merge_rows(Halves* rows) {
  Halves merged[8];
  for (int i = 0; i < 4; ++i) {
    const Halves a = rows[i], b = rows[i + 4];
    merged[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
    merged[2 * i + 1] = __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  for (int i = 0; i < 8; ++i) rows[i] = merged[i];
}

CARILLON_INLINE void transpose(Halves (&rows)[16]) {
  for (int pass = 0; pass < 3; ++pass) {
    merge_rows(rows);
    merge_rows(rows + 8);
  }
  for (int i = 0; i < 8; ++i) {
    const Halves upper = rows[i], lower = rows[i + 8];
    rows[i] = __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    rows[i + 8] = __builtin_shufflevector(upper, lower, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
}

/// Does the same as pack_transposed, but only for the columns `first` to `first` + 15, or up to the last column.
CARILLON_INLINE void pack_transposed_16(const TileSource<Bf16>& source, std::int64_t first, std::int64_t columns,
                                        Bf16* to, std::int64_t stride) {
  const std::int64_t width = columns - first < 16 ? columns - first : 16;
  Halves rows[16];
  for (std::int64_t row = 0; row < 16; ++row) {
    rows[row] = Halves{};
    if (row >= source.count) continue;
    const Bf16* const from = source.rows + row * source.stride + first;
    if (width == 16) {
      __builtin_memcpy(&rows[row], from, sizeof(Halves));
    } else {
      __builtin_memcpy(&rows[row], from, static_cast<std::size_t>(width) * sizeof(Bf16));
    }
  }
  transpose(rows);
  for (std::int64_t c = 0; c < width; ++c)
    __builtin_memcpy(static_cast<void*>(to + (first + c) * stride), &rows[c], sizeof(Halves));
}

#if defined(__AVX512BW__)
CARILLON_INLINE void merge_rows(__m512i* rows) {
  __m512i merged[8];
  for (int i = 0; i < 4; ++i) {
    merged[2 * i] = _mm512_unpacklo_epi16(rows[i], rows[i + 4]);
    merged[2 * i + 1] = _mm512_unpackhi_epi16(rows[i], rows[i + 4]);
  }
  for (int i = 0; i < 8; ++i) rows[i] = merged[i];
}

/// Stores columns `column` and `column` + 8, if they exist. The two halves of `both` are these columns.
CARILLON_INLINE void store_columns(__m512i both, std::int64_t column, std::int64_t columns, Bf16* to,
                                   std::int64_t stride) {
  const __m256i first = __builtin_shufflevector(both, both, 0, 1, 2, 3),
                second = __builtin_shufflevector(both, both, 4, 5, 6, 7);
  if (column < columns) __builtin_memcpy(static_cast<void*>(to + column * stride), &first, sizeof(first));
  if (column + 8 < columns) __builtin_memcpy(static_cast<void*>(to + (column + 8) * stride), &second, sizeof(second));
}

/// Does the same as pack_transposed, but only for the columns `first` to `first` + 31, or up to the last column. If 32
/// columns fill a cache line, the function reads each cache line once. A second read would not find the line in the
/// cache: rows are often a multiple of 4 KiB apart, and a first-level cache with 12 ways cannot hold 16 such lines.
CARILLON_INLINE void pack_transposed_32(const TileSource<Bf16>& source, std::int64_t first, std::int64_t columns,
                                        Bf16* to, std::int64_t stride) {
  const __m512i lower_columns = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                upper_columns = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __mmask32 mask = columns - first >= 32 ? 0xffffffffu : (1u << (columns - first)) - 1;
  __m512i rows[16];
  for (std::int64_t row = 0; row < 16; ++row) {
    rows[row] = row < source.count ? _mm512_maskz_loadu_epi16(mask, source.rows + row * source.stride + first)
                                   : _mm512_setzero_si512();
  }
  for (int pass = 0; pass < 3; ++pass) {
    merge_rows(rows);
    merge_rows(rows + 8);
  }
  for (int c = 0; c < 8; ++c) {
    store_columns(_mm512_permutex2var_epi64(rows[c], lower_columns, rows[c + 8]), first + c, columns, to, stride);
    store_columns(_mm512_permutex2var_epi64(rows[c], upper_columns, rows[c + 8]), first + 16 + c, columns, to, stride);
  }
}
#endif

void pack_transposed(const TileSource<Bf16>& source, std::int64_t columns, Bf16* to, std::int64_t stride) {
  std::int64_t first = 0;
#if defined(__AVX512BW__)
  for (; first + 16 < columns; first += 32) pack_transposed_32(source, first, columns, to, stride);
#endif
  for (; first < columns; first += 16) pack_transposed_16(source, first, columns, to, stride);
}

/// to[2 n] = even[n], to[2 n + 1] = odd[n] for 16 columns n.
CARILLON_INLINE void interleave(const float* even, const float* odd, Bf16* to) {
  std::uint32_t both[16];
  for (int n = 0; n < 16; ++n) both[n] = rounded_bits(even[n]) | rounded_bits(odd[n]) << 16;
  __builtin_memcpy(static_cast<void*>(to), both, sizeof(both));
}
CARILLON_INLINE void interleave(const Bf16* even, const Bf16* odd, Bf16* to) {
  Halves a, b;
  __builtin_memcpy(&a, even, sizeof(a));
  __builtin_memcpy(&b, odd, sizeof(b));
  const Halves low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
  const Halves high = __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
  const Halves first = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
  const Halves last = __builtin_shufflevector(low, high, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  __builtin_memcpy(static_cast<void*>(to), &first, sizeof(first));
  __builtin_memcpy(static_cast<void*>(to + 16), &last, sizeof(last));
}

/// Packs rows `row` and `row` + 1 of a block of 16 columns. The block begins at column `first`. `columns`: number of
/// columns from `first` to the end of the row.
template <typename T>
CARILLON_INLINE void pack_pair(const TileSource<T>& source, std::int64_t row, std::int64_t first, std::int64_t columns,
                               Bf16* to) {
  const bool has_even = row < source.count, has_odd = row + 1 < source.count;
  const T* const even = has_even ? source.rows + row * source.stride + first : nullptr;
  const T* const odd = has_odd ? even + source.stride : nullptr;
  if (columns >= 16 && has_odd) return interleave(even, odd, to);
  std::uint32_t both[16] = {};
  for (std::int64_t n = 0; n < columns && n < 16 && has_even; ++n) both[n] = rounded_bits(even[n]);
  for (std::int64_t n = 0; n < columns && n < 16 && has_odd; ++n) both[n] |= rounded_bits(odd[n]) << 16;
  __builtin_memcpy(static_cast<void*>(to), both, sizeof(both));
}

// Packs two blocks at a time, so that it reads each cache line of bf16 values only once (see pack_transposed_32).
template <typename T>
void pack_right(const TileSource<T>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride) {
  for (std::int64_t first = 0; first < columns; first += 32) {
    Bf16* const tile = to + first / 16 * tile_stride;
    const std::int64_t remaining = columns - first;
    for (std::int64_t pair = 0; pair < 8; ++pair) {
      pack_pair(source, 2 * pair, first, remaining, tile + pair * 32);
      if (remaining > 16) pack_pair(source, 2 * pair, first + 16, remaining - 16, tile + tile_stride + pair * 32);
    }
  }
}

typedef std::uint32_t Pairs __attribute__((vector_size(16 * sizeof(std::uint32_t))));

/// Each pass rotates the bits of the index (row, column) by one bit. After four passes, rows have become columns.
void transpose_pairs(Bf16* tile) {
  Pairs rows[16];
  __builtin_memcpy(&rows, tile, sizeof(rows));
  for (int pass = 0; pass < 4; ++pass) {
    Pairs merged[16];
    for (int i = 0; i < 8; ++i) {
      const Pairs a = rows[i], b = rows[i + 8];
      merged[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      merged[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 16; ++i) rows[i] = merged[i];
  }
  __builtin_memcpy(static_cast<void*>(tile), &rows, sizeof(rows));
}

void write_sums(const float* sums, const TileTarget<float>& target) {
  for (std::int64_t first = 0; first < target.columns; first += columns_of_tile, sums += tile_sums) {
    const std::int64_t remaining = target.columns - first;
    const std::int64_t columns = remaining < columns_of_tile ? remaining : columns_of_tile;
    for (std::int64_t row = 0; row < target.count; ++row) {
      float* const to = target.rows + row * target.stride + first;
      if (columns == columns_of_tile) {
        __builtin_memcpy(to, sums + row * columns_of_tile, columns_of_tile * sizeof(float));
        continue;
      }
      for (std::int64_t n = 0; n < columns; ++n) to[n] = sums[row * columns_of_tile + n];
    }
  }
}

/// Returns the rounded_bits of each value.
CARILLON_INLINE NarrowInts rounded(Floats values) {
  const Words bits = (Words)values;
  const Words nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
  const Words is_nan = (Words)((bits & 0x7fffffffu) > 0x7f800000u);
  return __builtin_convertvector((is_nan & quiet) | (~is_nan & nearest), NarrowInts);
}

/// Adds `addend` to 16 sums, then applies max(., 0) if `with_relu` is true, and writes the first `columns` results.
CARILLON_INLINE void write_row(const float* sums, const Floats (&addend)[vectors], bool with_relu, std::int64_t columns,
                               Bf16* to) {
  NarrowInts row[vectors];
  for (int v = 0; v < vectors; ++v) {
    const Floats values = load(sums + v * lanes) + addend[v];
    row[v] = rounded(with_relu ? relu(values) : values);
  }
  __builtin_memcpy(static_cast<void*>(to), row, columns == 16 ? sizeof(row) : static_cast<std::size_t>(columns) * 2);
}

/// Loads `columns` values into a row of 16 values; the other values are 0. T: float or Bf16.
template <typename T>
CARILLON_INLINE void load_row(const T* from, std::int64_t columns, Floats (&row)[vectors]) {
  float values[16] = {};
  for (std::int64_t n = 0; n < columns; ++n) values[n] = widened(from[n]);
  for (int v = 0; v < vectors; ++v) row[v] = load(values + v * lanes);
}

// Ignores `non_temporal`.
void write_rounded(const float* sums, const RoundedWrite& write, const TileTarget<Bf16>& target) {
  for (std::int64_t first = 0; first < target.columns; first += 16, sums += tile_sums) {
    const std::int64_t columns = target.columns - first < 16 ? target.columns - first : 16;
    Floats addend[vectors];
    for (Floats& floats : addend) floats = broadcast(0.0f);
    if (write.bias != nullptr) load_row(write.bias + first, columns, addend);
    for (std::int64_t row = 0; row < target.count; ++row) {
      Bf16* const to = target.rows + row * target.stride + first;
      if (write.accumulate) load_row(to, columns, addend);
      write_row(sums + row * 16, addend, write.relu, columns, to);
    }
  }
}

void do_nothing() {}

constexpr Bf16TileKernels kernels{do_nothing, do_nothing, multiply,        pack_left,  pack_left,    pack_transposed,
                                  pack_right, pack_right, transpose_pairs, write_sums, write_rounded};

}  // namespace

const Bf16TileKernels* bf16_tile_kernels() { return &kernels; }

}  // namespace carillon::CARILLON_ISA
