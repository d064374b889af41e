// How large a checkpoint of a network can be, so that no file makes a run read more.
#pragma once

#include <cstdint>

#include "carillon/models/network.h"

namespace carillon {

/// Bytes that a checkpoint of `network` cannot exceed, whatever its optimiser keeps.
std::uint64_t max_checkpoint_bytes(const Network& network);

}  // namespace carillon
