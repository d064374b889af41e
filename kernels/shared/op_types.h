// The table of all op types of Carillon. A network that is read from a checkpoint consists of these ops.
#pragma once

#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

std::span<const OpType* const> op_types();

}  // namespace carillon
