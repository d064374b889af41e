// The instruction sets that can be chosen, and which of them give equal bits.
#pragma once

#include <vector>

#include "carillon/device/device.h"

namespace carillon {

/// Instruction sets that this processor supports and this build is compiled for, in ascending order.
std::vector<Isa> available_isas();

/// The lowest instruction set that gives the bits of `isa` in this arithmetic: avx512 for amx, and, except in bf16, for
/// avx512_bf16; otherwise `isa` itself.
Isa rounding_isa(Isa isa, Arithmetic arithmetic);

}  // namespace carillon
