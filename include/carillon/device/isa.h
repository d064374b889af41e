// Isa: the instruction sets that our CPU kernels are compiled for.
//
// A kernel is one source, *_simd.cpp, compiled once per instruction set (kernels/shared/simd.h). Opening the device
// chooses the instruction set. Equal runs on one instruction set give equal bits; different ones round differently.
#pragma once

namespace carillon {

/// In ascending order: a processor that supports one supports all before it.
enum class Isa {
  plain,        ///< baseline of the architecture: 4 floats per instruction
  avx2,         ///< x86-64-v3: 8 floats, fused multiply-add
  avx512,       ///< x86-64-v4: 16 floats, twice the registers
  avx512_bf16,  ///< the kernels of avx512, and products of bf16 by AVX512-BF16, whose bits differ from AMX's
  amx,  ///< the kernels of avx512, and products of bf16 tiles (AMX-BF16) with the bits of their emulation in avx512
};

}  // namespace carillon
