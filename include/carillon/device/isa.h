// Isa: the instruction sets that our CPU kernels are compiled for.
//
// A kernel is one source, *_simd.cpp, compiled once per instruction set (kernels/shared/simd.h). Opening the device
// chooses the instruction set. Runs with the same options and the same instruction set compute equal bits. Runs on
// different instruction sets round differently, except for the pairs that rounding_isa lists (device.h).
#pragma once

namespace carillon {

/// The instruction sets in ascending order: a processor that supports one also supports all earlier ones.
enum class Isa {
  plain,        ///< baseline of the architecture: one instruction processes 4 floats
  avx2,         ///< x86-64-v3: 8 floats per instruction, fused multiply-add
  avx512,       ///< x86-64-v4: 16 floats per instruction, twice as many registers
  avx512_bf16,  ///< as avx512, but bf16 products use AVX512-BF16, which rounds differently from AMX
  amx,          ///< as avx512, but bf16 products use AMX; avx512 emulates AMX with equal bits
};

}  // namespace carillon
