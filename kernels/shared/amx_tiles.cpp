#include "kernels/shared/amx_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace carillon {
namespace {

/// Only these functions are compiled for the tile instructions.
#define CARILLON_WITH_TILES __attribute__((target("amx-tile,amx-bf16")))

constexpr int tiles = 8;
// Tiles 0 to 5: sums. GCC takes only literals as tile numbers.
#define CARILLON_LEFT_TILE 6
#define CARILLON_RIGHT_TILE 7

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

/// GCC's tile intrinsics do not say that they read memory, so the compiler could move earlier stores after them.
inline void compiler_barrier(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// Expands STATEMENT(m) for m = 0 to count - 1. The intrinsics need a literal tile number.
#define CARILLON_EACH_SUM(count, STATEMENT)  \
  do {                                       \
    STATEMENT(0);                            \
    if constexpr ((count) > 1) STATEMENT(1); \
    if constexpr ((count) > 2) STATEMENT(2); \
    if constexpr ((count) > 3) STATEMENT(3); \
    if constexpr ((count) > 4) STATEMENT(4); \
    if constexpr ((count) > 5) STATEMENT(5); \
  } while (false)

template <int count>
CARILLON_WITH_TILES void multiply(const TileProduct& p) {
  constexpr long row_bytes = 64;
#define CARILLON_ZERO(m) _tile_zero(m)
#define CARILLON_LOAD(m) _tile_loadd(m, p.sums + m * tile_sums, row_bytes)
#define CARILLON_STORE(m) _tile_stored(m, p.sums + m * tile_sums, row_bytes)
#define CARILLON_MULTIPLY(m)                                    \
  do {                                                          \
    _tile_loadd(CARILLON_LEFT_TILE, left[m], row_bytes);        \
    _tile_dpbf16ps(m, CARILLON_LEFT_TILE, CARILLON_RIGHT_TILE); \
  } while (false)
  compiler_barrier(p.sums);
  if (p.add) {
    CARILLON_EACH_SUM(count, CARILLON_LOAD);
  } else {
    CARILLON_EACH_SUM(count, CARILLON_ZERO);
  }
  const Bf16* const* left = p.left;
  for (std::int64_t step = 0; step < p.steps; ++step, left += count) {
    _tile_loadd(CARILLON_RIGHT_TILE, p.right + p.right_offsets[step], row_bytes);
    CARILLON_EACH_SUM(count, CARILLON_MULTIPLY);
  }
  CARILLON_EACH_SUM(count, CARILLON_STORE);
  compiler_barrier(p.sums);
#undef CARILLON_ZERO
#undef CARILLON_LOAD
#undef CARILLON_STORE
#undef CARILLON_MULTIPLY
}

/// Products with the right tiles of two panels. Left and right tiles are loaded alternately, so that each load replaces
/// a tile that is no longer used: a step of three left tiles loads 7 tiles for 6 products, 2 of them again.
template <int count>
CARILLON_WITH_TILES void multiply_pair(const TileProduct& p) {
  constexpr long row_bytes = 64;
  constexpr int sums = 2 * count;
#define CARILLON_ZERO(m) _tile_zero(m)
#define CARILLON_LOAD(m) _tile_loadd(m, p.sums + m * tile_sums, row_bytes)
#define CARILLON_STORE(m) _tile_stored(m, p.sums + m * tile_sums, row_bytes)
#define CARILLON_LOAD_LEFT(m) _tile_loadd(CARILLON_LEFT_TILE, left[m], row_bytes)
#define CARILLON_LOAD_RIGHT(panel) _tile_loadd(CARILLON_RIGHT_TILE, right + panel * p.panel_stride, row_bytes)
#define CARILLON_MULTIPLY(sum) _tile_dpbf16ps(sum, CARILLON_LEFT_TILE, CARILLON_RIGHT_TILE)
  compiler_barrier(p.sums);
  if (p.add) {
    CARILLON_EACH_SUM(sums, CARILLON_LOAD);
  } else {
    CARILLON_EACH_SUM(sums, CARILLON_ZERO);
  }
  const Bf16* const* left = p.left;
  for (std::int64_t step = 0; step < p.steps; ++step, left += count) {
    const Bf16* const right = p.right + p.right_offsets[step];
    CARILLON_LOAD_LEFT(0);
    CARILLON_LOAD_RIGHT(0);
    CARILLON_MULTIPLY(0);
    CARILLON_LOAD_RIGHT(1);
    CARILLON_MULTIPLY(1);
    if constexpr (count > 1) {
      CARILLON_LOAD_LEFT(1);
      CARILLON_MULTIPLY(3);
      CARILLON_LOAD_RIGHT(0);
      CARILLON_MULTIPLY(2);
    }
    if constexpr (count > 2) {
      CARILLON_LOAD_LEFT(2);
      CARILLON_MULTIPLY(4);
      CARILLON_LOAD_RIGHT(1);
      CARILLON_MULTIPLY(5);
    }
  }
  CARILLON_EACH_SUM(sums, CARILLON_STORE);
  compiler_barrier(p.sums);
#undef CARILLON_ZERO
#undef CARILLON_LOAD
#undef CARILLON_STORE
#undef CARILLON_LOAD_LEFT
#undef CARILLON_LOAD_RIGHT
#undef CARILLON_MULTIPLY
}

}  // namespace

CARILLON_WITH_TILES void begin_amx_tiles() {
  TileConfiguration configuration;
  for (int i = 0; i < tiles; ++i) {
    configuration.row_bytes[i] = 64;
    configuration.rows[i] = 16;
  }
  compiler_barrier(&configuration);
  _tile_loadconfig(&configuration);
}

CARILLON_WITH_TILES void end_amx_tiles() { _tile_release(); }

void multiply_amx_tiles(const TileProduct& p) {
  if (p.panels == 2) {
    switch (p.count) {
      case 1:
        return multiply_pair<1>(p);
      case 2:
        return multiply_pair<2>(p);
      default:
        return multiply_pair<3>(p);
    }
  }
  switch (p.count) {
    case 1:
      return multiply<1>(p);
    case 2:
      return multiply<2>(p);
    case 3:
      return multiply<3>(p);
    case 4:
      return multiply<4>(p);
    case 5:
      return multiply<5>(p);
    default:
      return multiply<6>(p);
  }
}

}  // namespace carillon

#endif
