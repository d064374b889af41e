// Bf16TileKernels: products of bf16 tiles with float32 sums, and the packing of their operands. The sums have the same
// bits as the sums of AMX's instruction TDPBF16PS, except for Isa::avx512_bf16 (multiply_avx512_bf16).
//
// A left tile has 16 rows of 32 elements. A right tile has 32 rows of 16 elements, stored in pairs of rows: [16
// pairs][16 columns][2]. The product of a left tile and a right tile changes 16 x 16 sums:
//   sums[r][n] = sums[r][n] + (sum over even k of left[r][k] * right[k][n]  +  the same over odd k)
// Each inner sum is a chain of fused multiply-adds in ascending k. The sum of the two chains is rounded. Then the
// rounded sum is added to the old sum, and the result is rounded. Denormal operands and denormal results count as zero.
// The emulation computes the same bits on every processor, if the threads flush denormals (src/core/process.h). The
// threads of a CpuDevice do this. Infinities follow IEEE rules; a NaN stays a NaN.
//
// Source: Intel, "Architecture Instruction Set Extensions Programming Reference", TDPBF16PS.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/device/isa.h"
#include "src/core/bf16.h"

namespace carillon {

inline constexpr std::int64_t tile_rows = 16, tile_depth = 32;  ///< number of rows of a left tile, and number of
                                                                ///< elements of a row
inline constexpr std::int64_t tile_elements = tile_rows * tile_depth, tile_sums = tile_rows * tile_rows;

/// Describes a product of tiles in `steps` steps. Each step multiplies up to most_left(panels) left tiles by one right
/// tile of each panel. There are one or two panels. A panel consists of the right tiles for 16 columns of the result.
struct TileProduct {
  static constexpr std::int64_t most_sums = 6;  ///< largest product of the number of left tiles and the number of
                                                ///< panels
  static constexpr std::int64_t most_left(std::int64_t panels) { return most_sums / panels; }

  int count = 0;   ///< number of left tiles in a step
  int panels = 1;  ///< number of right tiles in a step
  std::int64_t steps = 0;
  const Bf16* const* left = nullptr;            ///< the left tiles, [steps][count]
  const Bf16* right = nullptr;                  ///< the right tiles of the first panel
  std::int64_t panel_stride = 0;                ///< distance from the right tiles of the first panel to the right tiles
                                                ///< of the second panel, in elements
  const std::int64_t* right_offsets = nullptr;  ///< [steps], in elements from `right`
  float* sums = nullptr;                        ///< [count][panels][16][16]
  bool add = false;                             ///< true: add to `sums`; false: overwrite them
};

/// The arrays of a TileProduct that name its tiles: `left` and `right_offsets`.
struct TileList {
  std::vector<const Bf16*> left;
  std::vector<std::int64_t> right;

  void clear() {
    left.clear();
    right.clear();
  }
  TileProduct product(int count) const {
    return {.count = count,
            .steps = static_cast<std::int64_t>(right.size()),
            .left = left.data(),
            .right_offsets = right.data()};
  }
};

/// A source of up to 16 rows. The distance from one row to the next is `stride` elements. Missing rows count as zeros.
/// T: float or Bf16.
template <typename T>
struct TileSource {
  const T* rows = nullptr;
  std::int64_t stride = 0, count = 0;
};

/// The memory that receives the sums of one or two panels, [panels][16][16]: `columns` elements in each of `count`
/// rows. The distance from one row to the next is `stride` elements.
template <typename T>
struct TileTarget {
  T* rows = nullptr;
  std::int64_t stride = 0, count = 0, columns = 0;
};

/// Options of write_rounded.
struct RoundedWrite {
  const float* bias = nullptr;  ///< the biases of the target's columns; null: there are no biases
  bool relu = false;            ///< true: apply max(., 0); NaN stays NaN
  bool accumulate = false;      ///< true: add to the target's values; cannot be combined with biases or a ReLU
  /// A hint: write with non-temporal stores if the instruction set and the alignment permit. end() completes them.
  bool non_temporal = false;
};

/// The kernels of one instruction set. The kernels round floats to nearest, ties to even.
struct Bf16TileKernels {
  /// Each thread calls begin() before its first multiply() and end() after its last multiply() and write_rounded().
  void (*begin)();
  void (*end)();
  void (*multiply)(const TileProduct& product);

  /// Packs `columns` columns into left tiles of 32 columns, and fills the last tile with zeros. Tile b has columns 32 b
  /// to 32 b + 31 and is at to + b * tile_stride.
  void (*pack_left)(const TileSource<Bf16>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride);
  void (*pack_left_floats)(const TileSource<float>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride);
  /// Writes the transposed source to to[c * stride + r], for `columns` columns c and 16 rows r.
  void (*pack_transposed)(const TileSource<Bf16>& source, std::int64_t columns, Bf16* to, std::int64_t stride);
  /// Packs one half of each right tile: the 16 rows become 8 pairs of rows. Block b of 16 columns becomes an array
  /// [8][16][2] at to + b * tile_stride.
  void (*pack_right)(const TileSource<Bf16>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride);
  void (*pack_right_floats)(const TileSource<float>& source, std::int64_t columns, Bf16* to, std::int64_t tile_stride);
  /// Turns a left tile into a right tile: the rows of the left tile become the columns of the right tile.
  void (*transpose_pairs)(Bf16* tile);
  /// Writes target = sums.
  void (*write_sums)(const float* sums, const TileTarget<float>& target);
  /// Writes target = sums + bias. If `relu` is true, then applies max(., 0). If `accumulate` is true, writes target =
  /// target + sums. Each value is rounded once.
  void (*write_rounded)(const float* sums, const RoundedWrite& write, const TileTarget<Bf16>& target);
};

/// Returns the kernels of the instruction set. The kernels multiply with the tile instructions for Isa::amx, and with
/// VDPBF16PS for Isa::avx512_bf16. For all other instruction sets, the kernels emulate the products. Emulated products
/// are slower than float32 products.
const Bf16TileKernels& bf16_tile_kernels(Isa isa);

// Functions of Bf16TileKernels that use instructions for bf16. The instructions are AMX (Isa::amx;
// src/device/device.cpp asks Linux for permission) and AVX512-BF16 (Isa::avx512_bf16 and above).
//
// With AVX512-BF16, the thread must flush denormals (src/core/process.h): VDPBF16PS always flushes denormals, but the
// additions to `sums` flush them only in such a thread.

/// Configures the calling thread's tiles. Call it in each parallel region, because other libraries may have changed the
/// configuration.
void begin_amx_tiles();
/// Releases the tiles, because otherwise Linux would save 8 KiB of tile data at each context switch. Also completes the
/// non-temporal stores of write_rounded (complete_non_temporal_stores).
void end_amx_tiles();
void multiply_amx_tiles(const TileProduct& product);

/// Returns the number of the chain to which a step belongs. The offset of the step's right tile determines the number.
/// A chain has at most 8 steps, i.e. 128 pairs of products. Reason for the limit: with a single chain for a whole
/// weights' gradient, the relative error was 1.7e-6, but the tests permit 1e-6. A chain depends only on offsets: if a
/// product omits steps, the other steps stay in their chains.
[[gnu::always_inline]] inline std::int64_t avx512_bf16_chain(std::int64_t right_offset) {
  return right_offset / (8 * tile_elements);
}

/// Implements Bf16TileKernels::multiply with the instruction VDPBF16PS. The sum of a chain of steps begins at zero. For
/// each pair (k, k + 1), in ascending order, the sum receives two fused multiply-adds: first the product of k + 1, then
/// the product of k. At the end of the chain, the sum is added to `sums`. Denormal operands and denormal results count
/// as zero. Compared with products in float32, an AMD Zen 4 computes twice as many of these products per second
/// (docs/lab-notes/2026-11-26-bf16-with-avx512-bf16.md), and an Intel Emerald Rapids computes half as many. Source:
/// Intel, "Architecture Instruction Set Extensions Programming Reference", VDPBF16PS.
void multiply_avx512_bf16(const TileProduct& product);
/// Implements Bf16TileKernels::write_rounded with AVX512-BF16's conversion, which flushes denormals. Uses non-temporal
/// stores if `non_temporal` is true and each row is an aligned cache line: 32 columns that start at a multiple of 64
/// bytes.
void write_rounded_avx512_bf16(const float* sums, const RoundedWrite& write, const TileTarget<Bf16>& target);
/// Implements Bf16TileKernels::end: completes the non-temporal stores.
void complete_non_temporal_stores();

}  // namespace carillon
