// The functions of Bf16TileKernels by instructions for bf16: AMX (Isa::amx; src/device/isa.cpp asks for the
// permission), and AVX512-BF16 (Isa::avx512_bf16 and above).
//
// With AVX512-BF16, the thread must flush denormals (src/core/process.h): VDPBF16PS always flushes denormals, but the
// additions to `sums` flush them only in such a thread.
#pragma once

#include "kernels/shared/bf16_tiles.h"

namespace carillon {

/// Configures the calling thread's tiles. Call it in each parallel region, because other libraries may have changed the
/// configuration.
void begin_amx_tiles();
/// Releases the tiles, because otherwise Linux would save 8 KiB of tile data at each context switch. Also completes the
/// non-temporal stores of write_rounded (complete_non_temporal_stores).
void end_amx_tiles();
void multiply_amx_tiles(const TileProduct& product);

/// The number of the chain to which a step belongs. The offset of the step's right tile determines it. A chain has at
/// most 8 steps, i.e. 128 pairs of products. With a single chain for a whole weights' gradient, the relative error was
/// 1.7e-6, but the tests permit 1e-6. A chain depends only on offsets: if a product omits steps, the other steps stay
/// in their chains.
inline std::int64_t avx512_bf16_chain(std::int64_t right_offset) { return right_offset / (8 * tile_elements); }

/// Bf16TileKernels::multiply by VDPBF16PS. The sum of a chain of steps begins at zero. For each pair (k, k + 1), in
/// ascending order, the sum receives two fused multiply-adds: first the product of k + 1, then the product of k. At the
/// end of the chain, the sum is added to `sums`. Denormals count as zero, as operands and as results. Compared with
/// float32, an AMD Zen 4 computes twice as many products per second
/// (docs/lab-notes/2026-11-26-bf16-with-avx512-bf16.md), and an Intel Emerald Rapids half as many. Source: Intel,
/// "Architecture Instruction Set Extensions Programming Reference", VDPBF16PS.
void multiply_avx512_bf16(const TileProduct& product);
/// Bf16TileKernels::write_rounded by AVX512-BF16's conversion, which flushes denormals. With `non_temporal`, it uses
/// non-temporal stores if there are 32 columns and each row starts at a multiple of 64 bytes.
void write_rounded_avx512_bf16(const float* sums, const RoundedWrite& write, const TileTarget<Bf16>& target);
/// Bf16TileKernels::end: completes the non-temporal stores.
void complete_non_temporal_stores();

}  // namespace carillon
