// The largest size of a checkpoint of a network: a bound for reading files.
#pragma once

#include <cstdint>

#include "carillon/models/network.h"

namespace carillon {

/// Bytes that a checkpoint of `network` cannot exceed with any optimiser.
std::uint64_t max_checkpoint_bytes(const Network& network);

}  // namespace carillon
