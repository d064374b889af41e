// Isa: the instruction sets that the CPU tower's own kernels are compiled for.
//
// A kernel is one source, *_simd.cpp, compiled once for each of them (kernels/shared/simd.h); which one runs is chosen
// when the device is opened. Equal runs on one instruction set give equal bits; another one rounds differently.
#pragma once

namespace carillon {

/// Lowest first; each processor that has one has those before it.
enum class Isa {
  plain,   ///< what every processor of the architecture has: 4 floats at a time
  avx2,    ///< x86-64-v3: 8 floats, fused multiply-add
  avx512,  ///< x86-64-v4: 16 floats, twice as many registers
};

}  // namespace carillon
