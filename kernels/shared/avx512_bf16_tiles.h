// Parts of Bf16TileKernels by the instructions of AVX512-BF16. They require Isa::avx512_bf16, and a thread that flushes
// denormals (src/core/denormals.h).
#pragma once

#include "kernels/shared/bf16_tiles.h"

namespace carillon {

/// The chain of a step, by the place of its right tile. A chain has at most 8 steps, so 128 pairs of products: one
/// chain for a whole weights' gradient had 1.7 times the rounding error. Steps that a product omits do not move the
/// others to other chains.
inline std::int64_t avx512_bf16_chain(std::int64_t right_offset) { return right_offset / (8 * tile_elements); }

/// Bf16TileKernels::multiply by VDPBF16PS. The sum of a chain of steps begins at zero. For each k in ascending pairs
/// (k, k + 1), it receives two fused multiply-adds, first that of k + 1, then that of k. It is then added to `sums`.
/// Denormals count as zero, as operands and as results. Per second, AMD's Zen 4 computes twice as many products as in
/// float32, an Intel Emerald Rapids half as many.
/// Source: Intel, "Architecture Instruction Set Extensions Programming Reference", VDPBF16PS.
void multiply_avx512_bf16(const TileProduct& product);
/// Bf16TileKernels::write_rounded by AVX512-BF16's conversion, which flushes denormals.
void write_rounded_avx512_bf16(const float* sums, const float* bias, bool relu, const TileTarget<Bf16>& target);

}  // namespace carillon
