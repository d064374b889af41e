#include "kernels/shared/bf16_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace carillon {
namespace {

/// Marks a function that is compiled for the tile instructions. All other functions are compiled without them.
#define CARILLON_WITH_TILES __attribute__((target("amx-tile,amx-bf16")))

constexpr int tiles = 8;
// Tiles 0 to 5 hold the sums; a product uses one tile for each of its sums. GCC accepts only literals as tile numbers.
#define CARILLON_SECOND_RIGHT_TILE 5  // used only if there are at most four sums
#define CARILLON_LEFT_TILE 6
#define CARILLON_RIGHT_TILE 7

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

/// GCC's tile intrinsics do not tell the compiler that they read memory. Without this barrier, the compiler could move
/// earlier stores after them.
inline void compiler_barrier(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// Expands STATEMENT(m) for m = 0 to count - 1. The intrinsics need a literal tile number.
#define CARILLON_EACH(count, STATEMENT)      \
  do {                                       \
    STATEMENT(0);                            \
    if constexpr ((count) > 1) STATEMENT(1); \
    if constexpr ((count) > 2) STATEMENT(2); \
    if constexpr ((count) > 3) STATEMENT(3); \
    if constexpr ((count) > 4) STATEMENT(4); \
    if constexpr ((count) > 5) STATEMENT(5); \
  } while (false)
#define CARILLON_ZERO_SUM(sum) _tile_zero(sum)
#define CARILLON_LOAD_SUM(sum) _tile_loadd(sum, p.sums + sum * tile_sums, row_bytes)
#define CARILLON_STORE_SUM(sum) _tile_stored(sum, p.sums + sum * tile_sums, row_bytes)
#define CARILLON_LOAD_LEFT(m) _tile_loadd(CARILLON_LEFT_TILE, left[m], row_bytes)
#define CARILLON_LOAD_RIGHT(tile, panel) _tile_loadd(tile, right + panel * p.panel_stride, row_bytes)
#define CARILLON_MULTIPLY(sum, right_tile) _tile_dpbf16ps(sum, CARILLON_LEFT_TILE, right_tile)
#define CARILLON_LOAD_AND_MULTIPLY(m)          \
  do {                                         \
    CARILLON_LOAD_LEFT(m);                     \
    CARILLON_MULTIPLY(m, CARILLON_RIGHT_TILE); \
  } while (false)

// If there are three left tiles and two panels, six sums and one left tile use seven tiles. Only one of the eight tiles
// remains for the two right tiles. Therefore the products are ordered so that consecutive products share an operand. A
// step loads both right tiles twice. The second load finds them in the first-level cache.
template <int count, int panels>
CARILLON_WITH_TILES void multiply(const TileProduct& p) {
  constexpr long row_bytes = 64;
  constexpr int sums = count * panels;
  compiler_barrier(p.sums);
  if (p.add) {
    CARILLON_EACH(sums, CARILLON_LOAD_SUM);
  } else {
    CARILLON_EACH(sums, CARILLON_ZERO_SUM);
  }
  const Bf16* const* left = p.left;
  for (std::int64_t step = 0; step < p.steps; ++step, left += count) {
    const Bf16* const right = p.right + p.right_offsets[step];
    CARILLON_LOAD_RIGHT(CARILLON_RIGHT_TILE, 0);
    if constexpr (panels == 1) {
      CARILLON_EACH(count, CARILLON_LOAD_AND_MULTIPLY);
    } else if constexpr (count < 3) {
      CARILLON_LOAD_RIGHT(CARILLON_SECOND_RIGHT_TILE, 1);
      CARILLON_LOAD_LEFT(0);
      CARILLON_MULTIPLY(0, CARILLON_RIGHT_TILE);
      CARILLON_MULTIPLY(1, CARILLON_SECOND_RIGHT_TILE);
      if constexpr (count > 1) {
        CARILLON_LOAD_LEFT(1);
        CARILLON_MULTIPLY(2, CARILLON_RIGHT_TILE);
        CARILLON_MULTIPLY(3, CARILLON_SECOND_RIGHT_TILE);
      }
    } else {
      CARILLON_LOAD_LEFT(0);
      CARILLON_MULTIPLY(0, CARILLON_RIGHT_TILE);
      CARILLON_LOAD_RIGHT(CARILLON_RIGHT_TILE, 1);
      CARILLON_MULTIPLY(1, CARILLON_RIGHT_TILE);
      CARILLON_LOAD_LEFT(1);
      CARILLON_MULTIPLY(3, CARILLON_RIGHT_TILE);
      CARILLON_LOAD_RIGHT(CARILLON_RIGHT_TILE, 0);
      CARILLON_MULTIPLY(2, CARILLON_RIGHT_TILE);
      CARILLON_LOAD_LEFT(2);
      CARILLON_MULTIPLY(4, CARILLON_RIGHT_TILE);
      CARILLON_LOAD_RIGHT(CARILLON_RIGHT_TILE, 1);
      CARILLON_MULTIPLY(5, CARILLON_RIGHT_TILE);
    }
  }
  CARILLON_EACH(sums, CARILLON_STORE_SUM);
  compiler_barrier(p.sums);
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

CARILLON_WITH_TILES void end_amx_tiles() {
  _tile_release();
  complete_non_temporal_stores();
}

void multiply_amx_tiles(const TileProduct& p) {
  static_assert(TileProduct::most_left(1) == 6 && TileProduct::most_left(2) == 3);
  if (p.panels == 2) {
    switch (p.count) {
      case 1:
        return multiply<1, 2>(p);
      case 2:
        return multiply<2, 2>(p);
      default:
        return multiply<3, 2>(p);
    }
  }
  switch (p.count) {
    case 1:
      return multiply<1, 1>(p);
    case 2:
      return multiply<2, 1>(p);
    case 3:
      return multiply<3, 1>(p);
    case 4:
      return multiply<4, 1>(p);
    case 5:
      return multiply<5, 1>(p);
    default:
      return multiply<6, 1>(p);
  }
}

}  // namespace carillon

#endif
