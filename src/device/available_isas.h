// available_isas: the instruction sets that can be chosen.
#pragma once

#include <vector>

#include "carillon/device/isa.h"

namespace carillon {

/// Instruction sets that this processor supports and this build is compiled for, in ascending order.
std::vector<Isa> available_isas();

}  // namespace carillon
