// Bf16TileKernels without tile instructions, and the packing for processors with and without them.
#include "kernels/shared/bf16_tiles.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

typedef std::int32_t Ints __attribute__((vector_size(lanes * sizeof(std::int32_t))));
constexpr int columns_of_tile = 16, vectors = columns_of_tile / lanes;

/// Denormals become signed zeros.
CARILLON_INLINE Floats flushed(Floats x) {
  const Ints bits = (Ints)x;
  const Ints is_small = (bits & 0x7f800000) == 0;
  return (Floats)(bits & ~(is_small & 0x7fffffff));
}

/// a * b + c with one rounding on every instruction set.
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

/// A right tile as floats, even rows and odd rows separately.
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
    for (std::int64_t i = 0; i < p.count * tile_sums; ++i) p.sums[i] = 0.0f;
  }
  WidenedTile right;
  for (std::int64_t step = 0; step < p.steps; ++step) {
    widen(p.right + p.right_offsets[step], right);
    for (int m = 0; m < p.count; ++m) {
      const Bf16* const left = p.left[step * p.count + m];
      for (int row = 0; row < 16; ++row) add_row(left + row * p.left_stride, right, p.sums + m * tile_sums + row * 16);
    }
  }
}

/// Same result as to_bf16 (src/core/bf16.h), without a branch. This file has its own copy: see simd.h.
CARILLON_INLINE std::uint32_t rounded_bits(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}

CARILLON_INLINE void round_row(const float* from, std::int64_t count, Bf16* to) {
  if (count >= 32) {
    for (int i = 0; i < 32; ++i) to[i].bits = static_cast<std::uint16_t>(rounded_bits(from[i]));
    return;
  }
  for (std::int64_t i = 0; i < 32; ++i) to[i].bits = i < count ? static_cast<std::uint16_t>(rounded_bits(from[i])) : 0;
}

void pack_left(const TileSource& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride) {
  for (std::int64_t first = 0; first < columns; first += 32, to += tile_stride) {
    for (std::int64_t row = 0; row < 16; ++row) {
      const bool exists = row < source.count;
      round_row(exists ? source.rows + row * source.stride + first : nullptr, exists ? columns - first : 0,
                to + row * 32);
    }
  }
}

void pack_transposed(const TileSource& source, std::int64_t columns, Bf16* to, std::int64_t stride) {
  for (std::int64_t first = 0; first < columns; first += 16) {
    const std::int64_t last = first + 16 < columns ? first + 16 : columns;
    std::uint16_t block[16][16];
    for (std::int64_t row = 0; row < 16; ++row) {
      const float* const from = source.rows + row * source.stride;
      for (std::int64_t c = first; c < last; ++c) {
        block[c - first][row] = row < source.count ? static_cast<std::uint16_t>(rounded_bits(from[c])) : 0;
      }
    }
    for (std::int64_t c = first; c < last; ++c) __builtin_memcpy(to + c * stride, block[c - first], sizeof(block[0]));
  }
}

void pack_right(const TileSource& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride) {
  for (std::int64_t first = 0; first < columns; first += 16, to += tile_stride) {
    const std::int64_t width = columns - first < 16 ? columns - first : 16;
    for (std::int64_t pair = 0; pair < 8; ++pair) {
      std::uint32_t both[16] = {};
      const float* const even = source.rows + 2 * pair * source.stride + first;
      const float* const odd = even + source.stride;
      if (2 * pair < source.count) {
        for (std::int64_t n = 0; n < width; ++n) both[n] = rounded_bits(even[n]);
      }
      if (2 * pair + 1 < source.count) {
        for (std::int64_t n = 0; n < width; ++n) both[n] |= rounded_bits(odd[n]) << 16;
      }
      __builtin_memcpy(to + pair * 32, both, sizeof(both));
    }
  }
}

void write_sums(const float* sums, const float* bias, bool relu, const TileTarget& target) {
  for (std::int64_t row = 0; row < target.count; ++row) {
    float* const to = target.rows + row * target.stride;
    const float* const from = sums + row * 16;
    for (std::int64_t n = 0; n < target.columns; ++n) {
      const float value = bias == nullptr ? from[n] : from[n] + bias[n];
      to[n] = relu && value < 0.0f ? 0.0f : value;
    }
  }
}

void do_nothing() {}

constexpr Bf16TileKernels kernels{do_nothing, do_nothing, multiply, pack_left, pack_transposed, pack_right, write_sums};

}  // namespace

const Bf16TileKernels* bf16_tile_kernels() { return &kernels; }

}  // namespace carillon::CARILLON_ISA
