// available_isas: which instruction sets there are to choose from.
#pragma once

#include <vector>

#include "carillon/device/isa.h"

namespace carillon {

/// Those that this processor has and this build is compiled for, lowest first.
std::vector<Isa> available_isas();

}  // namespace carillon
