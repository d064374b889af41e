// Three functions of Bf16TileKernels for processors with AVX512-BF16 (Isa::avx512_bf16 and above). The thread must
// flush denormals (src/core/process.h): VDPBF16PS does so always, the additions to `sums` only then.
#pragma once

#include "kernels/shared/bf16_tiles.h"

namespace carillon {

/// The chain of a step, by the place of its right tile. A chain has at most 8 steps, so 128 pairs of products: one
/// chain for a whole weights' gradient had a relative error of 1.7e-6; the tests permit 1e-6. A chain depends on places
/// alone: if a product omits steps, the others stay in their chains.
inline std::int64_t avx512_bf16_chain(std::int64_t right_offset) { return right_offset / (8 * tile_elements); }

/// Bf16TileKernels::multiply by VDPBF16PS. The sum of a chain of steps begins at zero. For each k in ascending pairs
/// (k, k + 1), it receives two fused multiply-adds, first that of k + 1, then that of k. It is then added to `sums`.
/// Denormals count as zero, as operands and as results. Compared with float32, AMD's Zen 4 computes twice as many
/// products per second (docs/lab-notes/2026-11-26-bf16-with-avx512-bf16.md), an Intel Emerald Rapids half as many.
/// Source: Intel, "Architecture Instruction Set Extensions Programming Reference", VDPBF16PS.
void multiply_avx512_bf16(const TileProduct& product);
/// Bf16TileKernels::write_rounded by AVX512-BF16's conversion, which flushes denormals. With `non_temporal`, it uses
/// non-temporal stores if there are 32 columns and each row starts at a multiple of 64 bytes.
void write_rounded_avx512_bf16(const float* sums, const RoundedWrite& write, const TileTarget<Bf16>& target);
/// Bf16TileKernels::end: completes the non-temporal stores.
void complete_non_temporal_stores();

}  // namespace carillon
