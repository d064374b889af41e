// The largest size of a checkpoint of a network: a bound for reading files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "carillon/models/network.h"

namespace carillon {

/// Bytes that a checkpoint of `network` cannot exceed with any optimiser.
std::uint64_t max_checkpoint_bytes(const Network& network);

/// The limit for reading, if the checkpoints of the wanted networks have at most `max_bytes`: at least 1 GiB, so that
/// the reader can name the network of a larger checkpoint.
constexpr std::uint64_t checkpoint_read_limit(std::uint64_t max_bytes) {
  return std::max(max_bytes, std::uint64_t{1} << 30);
}

}  // namespace carillon
