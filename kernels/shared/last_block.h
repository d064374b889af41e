// is_last_block: lets the block of a kernel that finishes last continue with the results of the other blocks.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"

namespace carillon {

/// One thread of each of `blocks` blocks calls this after a barrier. Returns true in the block that calls it last.
/// After the next barrier, all threads of this block see the writes of the other blocks. `done`: 0 before the first
/// call and after the last.
CARILLON_HOST_DEVICE inline bool is_last_block(std::uint32_t* done, int blocks) {
  if (fetch_increment(done) + 1 != static_cast<std::uint32_t>(blocks)) return false;
  *done = 0;
  return true;
}

}  // namespace carillon
